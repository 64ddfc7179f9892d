"""Joins the parts of an expression without quotes that YAML has cut at a comma inside of {...}."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

Entry = tuple[yaml.Node, yaml.Node]


def whole_entries(node: yaml.MappingNode) -> Iterator[tuple[Entry, bool]]:
    """The keys of a mapping with their values, and whether the value is an expression that YAML has cut.

    YAML reads `{pages: First(page, 5)}` as `pages: First(page` and a key `5)` without a value. Such keys are parts of
    the value here.
    """
    entries: list[Entry] = list(node.value)
    while entries:
        key, value = entries.pop(0)
        text = value.value if node.flow_style and isinstance(value, yaml.ScalarNode) and not value.style else ""
        while _open(text) and entries and _without_value(entries[0]):
            text += f", {entries.pop(0)[0].value}"
        cut = bool(text) and text != value.value
        if cut:
            value = yaml.ScalarNode("tag:yaml.org,2002:str", text, value.start_mark, value.end_mark)
        yield (key, value), cut


def _open(text: str) -> bool:
    return text.count("(") > text.count(")")


def _without_value(entry: Entry) -> bool:
    key, value = entry
    empty = isinstance(value, yaml.ScalarNode) and not value.value and not value.style
    return empty and isinstance(key, yaml.ScalarNode)

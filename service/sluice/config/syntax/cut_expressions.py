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


def whole_items(node: yaml.Node) -> Iterator[tuple[yaml.Node, bool]]:
    """The items of a list, and whether the item is an expression that YAML has cut, as in `[substring(a, 0, 2)]`."""
    in_brackets = isinstance(node, yaml.CollectionNode) and bool(node.flow_style)
    items: list[yaml.Node] = list(node.value)
    while items:
        item = items.pop(0)
        text = _plain_text(item) if in_brackets else ""
        while _open(text) and items and _plain_text(items[0]):
            text += f", {_plain_text(items.pop(0))}"
        cut = bool(text) and text != item.value
        if cut:
            item = yaml.ScalarNode("tag:yaml.org,2002:str", text, item.start_mark, item.end_mark)
        yield item, cut


def _plain_text(node: yaml.Node) -> str:
    """The text of a value without quotes; empty for other nodes."""
    return str(node.value) if isinstance(node, yaml.ScalarNode) and not node.style else ""


def _open(text: str) -> bool:
    return text.count("(") > text.count(")")


def _without_value(entry: Entry) -> bool:
    key, value = entry
    empty = isinstance(value, yaml.ScalarNode) and not value.value and not value.style
    return empty and isinstance(key, yaml.ScalarNode)

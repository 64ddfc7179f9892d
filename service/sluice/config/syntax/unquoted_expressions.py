"""Expressions without quotes that YAML reads in another way: joins parts that it has cut at a comma inside of {...},
and finds what to write in place of others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from sluice.config.syntax.clause_parts import split

Entry = tuple[yaml.Node, yaml.Node]
#: the most characters of a line that is looked at
MAX_LINE = 1000
#: a line with a key and a value
LINE = re.compile(r"(?P<key>(?:- )?[\w.-]+:\s+)(?P<value>.+)")
#: the beginning of a line with a window clause
CLAUSE = re.compile(r"(- )?window(_left|_right)?:\s+[a-z]+,", re.IGNORECASE)
#: a line whose value, or whose first item in [...], begins with a sign of YAML
SIGN = re.compile(r"(- )?[\w.-]+:\s+\[?\s*(?P<sign>[@%!|>])")
#: the inside of {...} without further braces, and a key with its value in it
BRACES = re.compile(r"\{([^{}]*)\}")
ENTRY = re.compile(r"\s*(?P<key>[\w.-]+: )(?P<value>[^\s{\[].*?)\s*")


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


def quoted_line(line: str) -> str | None:
    """The line with quotes around its value, if it is no YAML, and its value is an expression; None otherwise.

    Such are `where: "ok" == status`, `where: "status == "ok""`, and `size: x > 5 ? "large" : "small"`.
    """
    if len(line) > MAX_LINE or _is_yaml(line):
        return None
    if match := LINE.fullmatch(line):
        value = match["value"]
        inside = [value[1:-1]] if value[0] in "\"'" and value[-1] == value[0] else []
        for whole in (value, *inside):
            if CLAUSE.match(line) or (whole[0] not in "{[" and _is_expression(whole)):
                return f"{match['key']}{in_quotes(whole)}"
    quoted = BRACES.sub(lambda match: f"{{{', '.join(_entry(entry) for _, entry in split(match[1]))}}}", line)
    return quoted if quoted != line and _is_yaml(quoted) else None


def _entry(text: str) -> str:
    """An entry of {...} with quotes around its value, if that needs them."""
    match = ENTRY.fullmatch(text)
    if match is None or (_is_yaml(f"{{{text}}}") and ("," not in match["value"] or match["value"][0] in "\"'")):
        return text.strip()
    return f"{match['key']}{in_quotes(match['value'])}"


def sign_at_start(line: str) -> str | None:
    """The sign of YAML with which the value in the line begins, as a text in quotes; None for other lines."""
    match = SIGN.match(line)
    return f'"{match["sign"]}"' if match else None


def in_quotes(text: str) -> str:
    """The text as a YAML value in quotes."""
    return f'"{text}"' if "'" in text and not set('"\\') & set(text) else "'{}'".format(text.replace("'", "''"))


def _is_yaml(line: str) -> bool:
    try:
        list(yaml.parse(line, yaml.SafeLoader))
    except yaml.YAMLError:
        return False
    return True


def _is_expression(text: str) -> bool:
    from sluice.config.syntax.expression_grammar import ExpressionError, check_syntax  # noqa: PLC0415 - it imports lark, which files without such a line may not need

    try:
        check_syntax(text)
    except ExpressionError:
        return False
    return True

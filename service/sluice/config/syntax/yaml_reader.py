"""Reads YAML text into plain data, and keeps the line and the written text of every value for messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, ClassVar

import yaml

from sluice.config.syntax.other_systems import line_of_spl, param_of_spl
from sluice.config.syntax.unquoted_expressions import in_quotes, quoted_line, sign_at_start, whole_entries, whole_items
from sluice.files import read_file
from sluice.model.errors import Path, PipelineError, Problem, spell
from sluice.model.secrets import is_secret

#: maximum number of values after aliases are expanded, because a small file with aliases can stand for a huge one
MAX_VALUES = 100_000
#: maximum depth of nested mappings and lists, because functions walk through them by recursion
DEEPEST = 100
#: keys at the top below which no value is shown, because it may be a password
SECRET = (("kafka",), ("registry",), ("state_options",))
#: the key at the top below which values are expressions
OPERATORS = ("operators",)
SHOWN = 60
#: YAML 1.1's key that merges the mapping of an alias into the one around it
MERGE = "<<"
#: characters that YAML does not allow
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
#: YAML's words for the second one of two anchors of one name
ANCHOR_TWICE = "second occurrence"
#: a key with its colon, somewhere in a line
KEY = re.compile(r"(?P<name>[\w.-]+)[\"']?\s*:(?=\s)")


@dataclass(slots=True)
class Source:
    """A file after reading. `data` consists of dict, list, str, int, float, bool and None only; all keys are str.

    `lines` and `texts` have the line (from 1 on) and the written text of the value at each path. `overridden` has the
    paths whose values are not from the file.
    """

    file: str
    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    texts: dict[Path, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    overridden: set[Path] = field(default_factory=set)

    def line(self, path: Path) -> int | None:
        """The line of the value at `path` or else of the nearest value around it; None if the value is overridden."""
        while path not in self.lines and path:
            if path in self.overridden:
                return None
            path = path[:-1]
        return self.lines.get(path)

    def override(self, values: Mapping[str, Any]) -> None:
        """Replaces top-level values of the file, for instance by those of a command line; `kafka` is merged."""
        for key, value in values.items():
            old = self.data.get(key)
            if key == "kafka" and isinstance(old, dict):
                self.data[key] = {**old, **value}
                self._mark_overridden((key, option) for option in value)
            else:
                self.data[key] = value
                self._mark_overridden([(key,)])

    def rename(self, old: Path, new: Path) -> None:
        """Gives the values at and below `new` the lines and texts of those at and below `old`, which keep theirs."""
        moved = {path: (*new, *path[len(old) :]) for path in self.lines if path[: len(old)] == old}
        self.lines |= {new_path: self.lines[old_path] for old_path, new_path in moved.items()}
        self.texts |= {new_path: self.texts[old_path] for old_path, new_path in moved.items() if old_path in self.texts}

    def _mark_overridden(self, paths: Iterable[Path]) -> None:
        """Removes the lines and texts of these values: they did not come from the file."""
        for path in paths:
            self.overridden.add(path)
            self.lines = {inner: line for inner, line in self.lines.items() if inner[: len(path)] != path}
            self.texts = {inner: text for inner, text in self.texts.items() if inner[: len(path)] != path}


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A YAML loader that reads a plain scalar as true, false, null, a number or text.

    It reads YAML 1.1's `on` and `off`, dates and sexagesimal numbers as text, and a leading 0 makes no octal number.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), "tTfF")
Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9]+$"), "-+0123456789")
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    "-+.0123456789",
)


def read(path: str | FilePath) -> Source:
    """Reads a file. Raises PipelineError if it is not a YAML mapping. Repeated keys are listed in `problems`."""
    file = str(path)
    try:
        text = read_file(path).decode("utf-8-sig")
    except OSError as error:
        raise PipelineError([Problem(file, None, "", f"a file that can be read ({error.strerror})", file)]) from None
    except UnicodeDecodeError as error:
        bad_byte = f"byte {error.object[error.start]:#04x} at {error.start}"
        line = error.object[: error.start].count(b"\n") + 1
        raise PipelineError([Problem(file, line, "", "text in UTF-8", bad_byte)]) from None
    return read_text(text, file)


def read_text(text: str, file: str) -> Source:
    source = Source(file)
    node = compose(text, file)
    if not isinstance(node, yaml.MappingNode):
        shown_text = shown(text) if text.strip() else None
        raise PipelineError(
            [Problem(file, 1, "", "a mapping with the keys pipeline, streams and operators", shown_text)]
        )
    source.data = Walk(source, text).value(node, ())
    return source


def compose(text: str, file: str) -> yaml.Node | None:
    try:
        check_bounds(yaml.parse(text, Loader), file)
        node: yaml.Node | None = yaml.compose(text, Loader)
    except yaml.MarkedYAMLError as error:
        line = _line_of(error, text)
        written = text.splitlines()[line - 1].strip() if line and line <= len(text.splitlines()) else None
        shown_text = None if written is None else without_secret(written)
        problem = error.problem if error.problem != ANCHOR_TWICE else "an anchor of this name is there already"
        problem = (
            problem if shown_text == written else "perhaps the value needs quotes"
        )  # YAML's text may have the value
        expected, hint = _expected(error, text, line) or f"YAML without errors ({problem})", None
        if clause := line_of_spl(shown_text or ""):
            expected, hint = "the window clause without its stream", f"window: {clause}"
        elif param := param_of_spl(shown_text or ""):
            expected = param
        elif quoted := quoted_line(shown_text or ""):
            expected, hint = "quotes around the whole expression, as YAML reads it in another way", quoted
        elif "`" in (shown_text or ""):
            expected = "names without backticks"
        elif sign := sign_at_start(shown_text or ""):
            expected = f"quotes around a value that begins with {sign}, which has a meaning of its own in YAML"
        raise PipelineError([Problem(file, line, "", expected, shown_text, hint)]) from None
    except yaml.YAMLError as error:
        match = CONTROL.search(text)
        line = None if match is None else text.count("\n", 0, match.start()) + 1
        raise PipelineError([Problem(file, line, "", "YAML", shown(str(error)))]) from None
    return node


#: beginning of what YAML was reading when a text ended too early -> the sign that is missing
UNCLOSED = {
    "while scanning a quoted scalar": "a closing quote",
    "while parsing a flow sequence": 'a closing "]"',
    "while parsing a flow mapping": 'a closing "}"',
}


def _line_of(error: yaml.MarkedYAMLError, text: str) -> int | None:
    """The line of the error: of something that is not closed the line in which it begins; of a tab its own line."""
    if _unclosed(error) and error.context_mark:
        return int(error.context_mark.line) + 1
    if error.problem_mark is None:
        return None
    line, lines = int(error.problem_mark.line), text.splitlines()
    return next((at for at in (line + 1, line + 2) if at <= len(lines) and _has_tab(lines[at - 1])), line + 1)


def _expected(error: yaml.MarkedYAMLError, text: str, line: int | None) -> str | None:
    """What is expected in place of a frequent error of YAML; None for others."""
    lines = text.splitlines()
    if line and line <= len(lines) and _has_tab(lines[line - 1]):
        return "spaces in place of the tab, as YAML indents with spaces only"
    return _unclosed(error)


def _has_tab(line: str) -> bool:
    """Whether a tab is among the characters that indent the line, also behind the sign of a list."""
    return "\t" in line[: len(line) - len(line.lstrip(" \t-"))]


def _unclosed(error: yaml.MarkedYAMLError) -> str | None:
    """The sign that is missing at the end of a text in quotes or brackets; None if another error was found.

    YAML finds it at the end of the file, or at the key in the next line.
    """
    start, end = error.context_mark, error.problem_mark
    if start is None or end is None or start.line == end.line:
        return None
    return UNCLOSED.get(error.context or "")


def without_secret(line: str) -> str:
    """The line, in which the value of a key such as `sasl.password` is replaced."""
    keys = (match for match in KEY.finditer(line) if is_secret(match["name"]))
    return next((f"{line[: match.end()]} ***" for match in keys), line)


def check_bounds(events: Iterable[yaml.Event], file: str) -> None:
    """Checks depth and size of the text before libyaml builds nodes from it.

    libyaml builds them by recursion, so a text with 50,000 levels would crash the process. Raises PipelineError.
    """
    depth = 0
    for count, event in enumerate(events):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST or count > 2 * MAX_VALUES:  # a key and its value are two events
            raise too_large(file, event.start_mark.line + 1 if event.start_mark else None, ())


def too_large(file: str, line: int | None, path: Path) -> PipelineError:
    expected = f"at most {MAX_VALUES} values, {DEEPEST} levels, and no alias inside of its own anchor"
    return PipelineError([Problem(file, line, spell(path), expected, "more")])


class Walk:
    """Converts YAML nodes into values, and stores the line and the text of each value in `source`."""

    def __init__(self, source: Source, text: str) -> None:
        self.source = source
        self.text = text
        self.open: set[int] = set()

    def value(self, node: yaml.Node, path: Path) -> Any:  # noqa: ANN401 - any YAML value
        self.source.lines.setdefault(path, node.start_mark.line + 1)
        if len(self.source.texts) > MAX_VALUES or len(path) > DEEPEST or id(node) in self.open:
            raise too_large(self.source.file, node.start_mark.line + 1, path)
        if isinstance(node, yaml.ScalarNode):
            if self.begins_with_tag(node):
                return self.tagged(node, path)
            self.source.texts[path] = node.value
            return scalar(node)
        self.source.texts[path] = self.beginning(node)
        self.open.add(id(node))
        value = self.mapping(node, path) if isinstance(node, yaml.MappingNode) else self.sequence(node, path)
        self.open.remove(id(node))
        return value

    def begins_with_tag(self, node: yaml.ScalarNode) -> bool:
        """Whether the value begins with "!" and a word, or with "!" alone, which YAML drops, as in `where: ! open`."""
        start, end = node.start_mark.index, node.end_mark.index
        return self.text.startswith("!", start, end) and not self.text.startswith("!!", start, end)

    def tagged(self, node: yaml.ScalarNode, path: Path) -> str:
        """The text of a value that YAML reads as a tag and another value, as in `where: !open`. It is a problem."""
        text = self.source.texts[path] = self.text[node.start_mark.index : node.end_mark.index].rstrip()
        expected, secret = 'quotes around a value that begins with "!"', path[:1] in SECRET
        shown_text, hint = ("***", None) if secret else (text, in_quotes(text))
        self.problem(node.start_mark.line + 1, path, expected, shown_text, hint)
        return text

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        content: dict[str, Any] = {}
        entries = whole_entries(node) if path[:1] == OPERATORS else ((entry, False) for entry in node.value)
        for (key, value), cut in entries:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self.problem(line, path, "a word as key", self.beginning(key))
                continue
            inner = (*path, str(key.value))
            if key.value == MERGE and key.style not in ("'", '"'):
                expected = "the keys themselves: `<<` merges nothing, and an alias such as *name is a whole value"
                self.problem(line, inner, expected, MERGE)
            elif key.value in content:
                self.problem(line, inner, f"each key once (the first is in line {self.source.lines[inner]})", key.value)
            else:
                self.source.lines[inner] = line
                content[key.value] = self.value(value, inner)
                if cut:
                    expected = "quotes around an expression with commas inside of {...}"
                    self.problem(line, inner, expected, value.value, in_quotes(value.value))
        return content

    def beginning(self, node: yaml.Node) -> str:
        """The first line of the text of a node, cut to the length that messages show."""
        start, end = node.start_mark.index, node.end_mark.index
        return shown(self.text[start : min(end, start + 2 * SHOWN)])

    def sequence(self, node: yaml.Node, path: Path) -> list[Any]:
        values: list[Any] = []
        for item, cut in whole_items(node) if path[:1] == OPERATORS else ((item, False) for item in node.value):
            inner = (*path, len(values))
            values.append(self.value(item, inner))
            if cut:
                expected = "quotes around an expression with commas inside of [...]"
                self.problem(item.start_mark.line + 1, inner, expected, item.value, in_quotes(item.value))
        return values

    def problem(self, line: int, path: Path, expected: str, got: str, hint: str | None = None) -> None:
        self.source.problems.append(Problem(self.source.file, line, spell(path), expected, got, hint))


def scalar(node: yaml.ScalarNode) -> str | int | float | bool | None:
    try:
        return PLAIN.get(node.tag.rpartition(":")[2], str)(node.value)
    except ValueError:  # an explicit tag that the text does not fit, or more digits than Python converts
        return str(node.value)


PLAIN: dict[str, Callable[[str], str | int | float | bool | None]] = {
    "null": lambda _: None,
    "bool": lambda text: text.lower() == "true",
    "int": int,
    "float": lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
}


def shown(text: str) -> str:
    """The first line of a text, cut to SHOWN characters, for messages."""
    first, *more = text.strip().splitlines() or [""]
    return f"{first[:SHOWN]} ..." if more or len(first) > SHOWN else first

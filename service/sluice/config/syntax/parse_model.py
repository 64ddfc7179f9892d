"""Converts the plain data of a pipeline file into the models of `file_models/`.

Wrong parts are reported and left out, and a misspelled key is read as the key that it resembles. So the rest of the
file can be checked as well.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sluice.config.syntax.durations import spelled_here
from sluice.config.syntax.file_models.operator_models import KINDS, SHAPES, UNMATCHED, AggregateShape
from sluice.config.syntax.file_models.pipeline_models import FileShape
from sluice.config.syntax.file_models.stream_models import StreamShape
from sluice.config.syntax.file_models.value_models import FileModel
from sluice.config.syntax.other_systems import (
    key_of_a_stream_elsewhere,
    key_of_an_event_time_elsewhere,
    key_of_another_system,
    key_of_the_file_elsewhere,
    operator_of_another_system,
    value_of_another_system,
)
from sluice.config.syntax.problem_report import Report
from sluice.config.syntax.unquoted_expressions import in_quotes
from sluice.model.errors import MAX_FINDINGS, Path, nearest, one_of

#: pydantic's type of an error -> what a message says that was expected; {...} is filled from the context of the error
EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "too_short": "at least one entry",
    "string_too_long": "a text of at most {max_length} characters",
    "string_too_short": "a text of at least {min_length} characters",
    "literal_error": "{expected}",
    "greater_than_equal": "a number that is at least {ge}",
    "less_than_equal": "a number that is at most {le}",
    "greater_than": "a number above {gt:g}",
    "less_than": "a number below {lt:g}",
    "finite_number": "a finite number",
}


#: keys with which other systems name the kind of an operator, and its input
KIND_KEYS, INPUT_KEYS = ("type", "kind", "operator", "op"), ("input", "from", "source", "stream", "inputs")

#: key -> what its value looks like, for messages
EXAMPLES = {
    "kafka": "{bootstrap.servers: localhost:9092}",
    "schema": "{id: string, amount: float64}",
    "key": "{attributes: [id]}",
    "mark_when": "{after: last}",
    "window": '"tumbling, time(5m)"',
    "align": "{zone: Europe/Berlin}",
    "join": "{left: orders, right: payments}",
    "order_by": "{amount: desc}",
}


#: a tag of a member of a union in pydantic's paths (file_models/)
TAG = re.compile(r"<[a-z]+>")
#: a text that is a number without its quotes
NUMBER = re.compile(r"[-+]?[0-9]+")
#: maximum number of known keys that the message about a misspelled key lists
MAX_LISTED = 8
#: an order as SQL writes it
ORDER = re.compile(r"(?P<by>\w+)(\s+(?P<word>asc|desc))?", re.IGNORECASE)
#: key at the top -> what its value has
WHOLE = {
    "streams": " from names to streams, such as {trades: {topic: trades}}",
    "operators": " of operators, each of which begins with - name: and its name",
}


@dataclass(slots=True)
class ParsedModel:
    """The part of the file whose keys and kinds of values are right."""

    file: FileShape
    #: for each operator its index in the file, which differs where operators before it were left out
    positions: list[int]
    #: streams whose attributes are unknown because of an error
    unclear: set[str] = field(default_factory=set)
    #: paths of all wrong parts
    left_out: set[Path] = field(default_factory=set)

    def partly(self, path: Path) -> bool:
        """Whether a part at or below `path` was wrong."""
        return any(wrong[: len(path)] == path for wrong in self.left_out)


def parse_model(report: Report) -> ParsedModel | None:
    """The parsed file, or None if too much of it is wrong to continue. Problems go to the report."""
    data: Mapping[str, Any] = report.source.data
    try:
        file = FileShape.model_validate(data)
        return ParsedModel(file, list(range(len(file.operators))))
    except ValidationError as error:
        errors = error.errors(include_url=False)
    meant = respelled(data, errors) if len(errors) <= MAX_FINDINGS else {}
    for details in errors:
        if details["type"] != "missing" or path_of(details) not in meant.values():
            report_error(details, report)
    as_meant = Salvage(data, errors, meant).shaped()
    if as_meant is None:
        return Salvage(data, errors, {}).shaped()
    for path, new in meant.items():
        report.source.rename(path, new)
    return as_meant


def respelled(data: Mapping[str, Any], errors: Iterable[ErrorDetails]) -> dict[Path, Path]:
    """For each unknown key that resembles a known key which is missing, or is its name in another system: its path, and
    the path with the known key.
    """
    meant = {}
    for path, details in ((path_of(details), details) for details in errors if details["type"] == "extra_forbidden"):
        keys = keys_at(path[:-1], details)
        other = key_elsewhere(path, keys)
        near = other if other in keys else None if other else nearest(str(path[-1]), keys)
        if near and near not in at(data, path[:-1]):
            meant[path] = (*path[:-1], near)
    return meant


def at(data: Any, path: Path) -> Any:  # noqa: ANN401 - any value of the file
    for step in path:
        if step not in (data if isinstance(data, Mapping) else range(len(data))):
            return {}  # pydantic replaces lone surrogates in the paths that it reports, so such a path does not exist
        data = data[step]
    return data


# ---- messages -------------------------------------------------------------------------------------------------------


def path_of(details: ErrorDetails) -> Path:
    """The path of pydantic's error in the file, without the tags that pydantic inserts for members of a union."""
    return tuple(step for step in details["loc"] if not TAG.fullmatch(str(step)))


def report_error(details: ErrorDetails, report: Report) -> None:  # noqa: C901 - a case for each kind of error
    path, value = path_of(details), details["input"]
    match details["type"]:
        case "missing":
            report.problem(path, f'the key "{path[-1]}"', None)
        case "extra_forbidden":
            keys = keys_at(path[:-1], details)
            if other := key_elsewhere(path, keys):
                report.problem(path, f"the key {other}" if other in keys else other, str(path[-1]))
                return
            near = nearest(str(path[-1]), keys)
            listed = len(keys) <= MAX_LISTED or near is None
            permitted = f"one of the keys {', '.join(keys)}" if listed else f"a key of {owner(path)}"
            report.problem(path, permitted, str(path[-1]), near)
        case "union_tag_not_found" | "union_tag_invalid":
            report_operator(path, value, report)
        case "list_type" if isinstance(value, str) and path[0] == "operators":
            report.problem(path, "a list", value, f"[{value}]")
        case _ if isinstance(value, str) and path[0] == "streams" and path[2:] == ("key",):
            report.problem(path, message(details) + example(path, details["type"]), value, f"{{attributes: [{value}]}}")
        case _ if path[-1] == "order_by" and (order := order_of(value)):
            as_written = report.source.texts.get(path, str(value))
            report.problem(path, message(details) + example(path, details["type"]), as_written, order)
        case "duration":
            report.problem(path, message(details), str(value), spelled_here(str(value)))
        case "literal_error" if isinstance(value, str) and (other := value_of_another_system(str(path[-1]), value)):
            words = message(details)
            meant = other if other in words.replace(" or ", ", ").split(", ") else None
            report.problem(path, words if meant else other, value, meant)
        case "string_type" if path[0] == "operators" and (text := cut_expression(path, value, report)):
            report.problem(path, "quotes around an expression with a colon", text, in_quotes(text))
        case _:
            expected = message(details) + example(path, details["type"])
            text, hint = quoted(path, value, message(details), report)
            hint = hint or in_the_other_kind(details["type"], value, text)
            report.problem(path, expected, text, f"[{text}]" if is_output(path) and isinstance(value, str) else hint)


def cut_expression(path: Path, value: object, report: Report) -> str | None:
    """The expression that YAML reads as a mapping, such as `c ? a : b` in `[c ? a : b]`; None for other values."""
    text = report.source.texts.get(path, "") if isinstance(value, dict) else ""
    return text if text[:1] != "{" and ":" in text else None


def message(details: ErrorDetails) -> str:
    """What was expected, for an error that has no message of its own."""
    return EXPECTED.get(details["type"], details["msg"]).format(**details.get("ctx", {})).replace("'", "")


def example(path: Path, kind: str) -> str:
    """The end of a message about a value of the wrong kind: what such a value looks like; empty if it is not known."""
    if kind not in ("string_type", "list_type", "dict_type", "model_type", "model_attributes_type"):
        return ""
    text = ""
    match path:
        case ("streams" | "operators" as key,):
            text = WHOLE[key]
        case ("streams", str(name)):
            text = f", such as {{topic: {name}}}"
        case ("operators", _, "output", _, str(name)):
            text = f" with an expression, such as {name}: {name}"
        case ("streams", _, "schema", _):
            text = ", such as string, or a mapping of members and their types for a struct"
        case ("kafka",) | ("streams", _, _) | ("operators", _, _):
            text = f", such as {EXAMPLES[str(path[-1])]}" if path[-1] in EXAMPLES else ""
    return text


def order_of(value: object) -> str | None:
    """An order that is written as in SQL or as a list, `ts`, `[ts, id DESC]` or `[ts: asc]`, as a mapping; None for
    something else.
    """
    parts = value if isinstance(value, list) else [value]
    texts = [" ".join(map(str, *part.items())) if isinstance(part, dict) and len(part) == 1 else part for part in parts]
    matches = [ORDER.fullmatch(text) if isinstance(text, str) else None for text in texts]
    pairs = [f"{match['by']}: {(match['word'] or 'asc').lower()}" for match in matches if match]
    return f"{{{', '.join(pairs)}}}" if pairs and len(pairs) == len(parts) else None


def is_output(path: Path) -> bool:
    return path[0] == "operators" and path[-1] == "output"


def key_elsewhere(path: Path, keys: Collection[str]) -> str | None:
    """What to write instead of an unknown key that other systems have in this part; None if it is not known."""
    key = str(path[-1])
    match path:
        case ("operators", _, _, *inner):
            other = key_of_another_system(key, keys)
            return other if not inner or other in keys else None
        case ("streams", _, _):
            return key_of_a_stream_elsewhere(key)
        case ("streams", _, "event_time", _):
            return key_of_an_event_time_elsewhere(key)
        case (_,):
            return key_of_the_file_elsewhere(key)
    return None


def quoted(path: Path, value: object, expected: str, report: Report) -> tuple[str | None, str | None]:
    """The value as written in the file, and the most similar of the expected words. Both may be None."""
    if path[0] in ("kafka", "registry"):
        return "***", None
    text = None if value is None else report.source.texts.get(path, str(value))
    if path[-1] == "window" and isinstance(value, list):
        return text, ", ".join(map(str, value))
    return text, nearest(text, expected.replace(" or ", ", ").split(", ")) if isinstance(value, str) and text else None


def in_the_other_kind(kind: str, value: object, text: str | None) -> str | None:
    """How a number is written as a text, or a text with a number as a number; None for other values and secrets."""
    if text in (None, "***"):
        return None
    if kind == "string_type" and isinstance(value, bool | int | float):
        return f"'{text}'"
    if kind in ("int_type", "float_type") and isinstance(value, str) and NUMBER.fullmatch(value):
        return f"{value} without quotes"
    return None


def owner(path: Path) -> str:
    """The name, for messages, of the part of the file whose keys are at this path."""
    return {"streams": "a stream", "operators": "this operator"}.get(str(path[0]), "a pipeline file")


def keys_at(path: Path, details: ErrorDetails) -> list[str]:
    """The keys that the part of the file at this path may have."""
    model: type[FileModel] = FileShape
    if path[:1] == ("streams",):
        model, path = StreamShape, path[2:]
    elif path[:1] == ("operators",):
        model, path = next((SHAPES[str(step)] for step in details["loc"] if step in SHAPES), AggregateShape), path[2:]
    steps = iter(path)
    for step in steps:  # an index leaves the model as it is
        inner = next((info.annotation for name, info in model.model_fields.items() if step in (name, info.alias)), None)
        if any(get_origin(part) is dict for part in (inner, *get_args(inner))):
            next(steps, None)  # a name that the user has chosen
        model = next(models_in(inner), model)
    return [info.alias or name for name, info in model.model_fields.items()]


def models_in(annotation: object) -> Iterator[type[FileModel]]:
    """The models of the mappings that a type of a model has, such as those of `dict[str, Model] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, FileModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def report_operator(path: Path, operator: Mapping[str, Any], report: Report) -> None:
    all_keys = {key for model in SHAPES.values() for key in model.model_fields}
    if (word := next((key for key in KIND_KEYS if str(operator.get(key)) in KINDS), None)) is not None:
        kind, stream = operator[word], next((str(operator[key]) for key in INPUT_KEYS if key in operator), "its stream")
        report.problem((*path, word), "the kind of the operator as key of its input stream", kind, f"{kind}: {stream}")
        return
    hints = {key: nearest(key, KINDS) for key in operator if key not in all_keys and key not in INPUT_KEYS}
    key = next((key for key, hint in hints.items() if hint), None)
    other = next((key for key in hints if operator_of_another_system(key)), None)
    if other and not key:
        report.problem((*path, other), str(operator_of_another_system(other)), other)
        return
    expected = f"the key {one_of(KINDS)}, and its stream"
    report.problem((*path, key) if key else path, expected, key or ", ".join(map(str, operator)), hints.get(key or ""))


# ---- the data without errors ----------------------------------------------------------------------------------------


class Salvage:
    """A copy of the data from which the wrong parts are removed."""

    def __init__(self, data: Mapping[str, Any], errors: Iterable[ErrorDetails], meant: Mapping[Path, Path]) -> None:
        """`meant` has the path of each misspelled key and the path under which its value is kept."""
        self.data = copy.deepcopy(dict(data))
        self.unclear: set[str] = set()
        self.left_out: set[Path] = set()
        self.dropped: set[int] = set()
        for details in errors:
            path = path_of(details)
            self.left_out.add(path)
            if path in meant:
                at(self.data, path[:-1])[meant[path][-1]] = at(self.data, path)
                self.remove(path)
            elif path not in meant.values():
                self.leave_out(path, details["type"])

    def shaped(self) -> ParsedModel | None:
        operators = self.data.get("operators")
        positions = [i for i in range(len(operators or ())) if i not in self.dropped]
        if isinstance(operators, list):
            self.data["operators"] = [operators[i] for i in positions]
        try:
            return ParsedModel(FileShape.model_validate(self.data), positions, self.unclear, self.left_out)
        except ValidationError:
            return None

    def leave_out(self, path: Path, kind: str) -> None:
        match path:
            case ("pipeline",):
                self.data["pipeline"] = "unnamed"
            case ("operators", int(index), "name"):
                self.data["operators"][index]["name"] = f"operator-{index}"
            case ("streams", str(name), *inner) if kind != "extra_forbidden":
                self.unclear.add(name)
                self.remove(path if inner else ("streams", name))
                self.data["streams"].setdefault(name, {})
            case ("operators", int(index), "output", str(stream), *_):
                self.unclear.add(stream)
                self.remove(path)
            case ("operators", int(index), str(key), *inner) if kind != "extra_forbidden" and needed(key):
                self.drop(index)
            case ("operators", int(index)):
                self.drop(index)
            case _:
                self.remove(path)

    def drop(self, index: int) -> None:
        self.dropped.add(index)
        operator = self.data["operators"][index]
        if not isinstance(operator, dict):
            return
        if isinstance(operator.get("output"), dict | list):
            self.unclear.update(map(str, operator["output"]))
        self.unclear.update(str(operator[key]) for key in UNMATCHED if key in operator)

    def remove(self, path: Path) -> None:
        inner = at(self.data, path[:-1])
        if isinstance(inner, dict):
            inner.pop(path[-1], None)


def needed(key: str) -> bool:
    return any(key in model.model_fields and model.model_fields[key].is_required() for model in SHAPES.values())

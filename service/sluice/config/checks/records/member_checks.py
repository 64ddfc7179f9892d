"""Checks where the records of a stream have its attributes, and how their values are spelled (PA1 to PA17)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any
from zoneinfo import available_timezones

from sluice.config.syntax.file_models.stream_models import MemberShape, StreamShape
from sluice.config.syntax.file_models.value_models import SPELLING, PairsShape, TypeText, has_spelling, is_spelled
from sluice.config.syntax.member_path import PathError, member_path
from sluice.config.syntax.problem_report import Report
from sluice.model.errors import Path, nearest
from sluice.model.functions import ZONES_OF_THE_MACHINE, is_zone
from sluice.model.members import (
    HEADER,
    KEY,
    NAME,
    STRICT,
    UNITS,
    WHOLE,
    Member,
    Pairs,
    Spelling,
    Steps,
    quoted,
    text_of,
)
from sluice.model.types import MapType, Schema, StructType, TimeForm, Type
from sluice.wire.formats.format_table import FORMATS
from sluice.wire.json import time_patterns

#: the formats whose records may have objects within objects
NESTED = tuple(word for word, form in FORMATS.items() if form.has_paths)
#: the formats whose value may be an attribute as a whole
DOCUMENTS = tuple(word for word, form in FORMATS.items() if form.has_documents)


@dataclass(slots=True)
class Members:
    """Where the records of a stream have its attributes.

    members   by attribute: its path within its part of the record, and its spelling, if they are not the plain ones
    keys      the attributes in the key by their `from`
    headers   by attribute: the header of its `from`
    """

    members: dict[str, Member] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)


def given_members(shape: StreamShape) -> dict[str, MemberShape]:
    """The attributes for which the file has more than a type: a mapping, or a type with a spelling inside."""
    attributes = (shape.attributes or {}).items()
    return {
        name: value if isinstance(value, MemberShape) else MemberShape.model_validate({"type": value})
        for name, value in attributes
        if isinstance(value, MemberShape) or has_spelling(value_of(value))
    }


def keys_of(shape: StreamShape) -> tuple[str, ...]:
    """The attributes in the key of the records: of the block `key`, then attributes with a path from `key` (PA3)."""
    of_block = tuple(shape.key.attributes) if shape.key else ()
    named = [
        name for name, member in given_members(shape).items() if (steps := _steps(member.source)) and steps[0] == KEY
    ]
    return (*of_block, *(name for name in named if name not in of_block))


def _steps(text: str | None) -> Steps:
    try:
        return member_path(text) if text is not None and not text.startswith("[") else ()
    except PathError:
        return ()


@dataclass(frozen=True, slots=True)
class MemberChecks:
    report: Report

    def of(self, name: str, shape: StreamShape, schema: Schema, *, written: bool) -> Members:
        """The members of a stream. `written` says whether an operator writes it."""
        result, types, path = Members(), dict(schema), ("streams", name, "schema")
        for attribute, attribute_shape in given_members(shape).items():
            self.check_direction((*path, attribute), attribute_shape, written=written)
            steps = self.path((*path, attribute), attribute_shape, written=written)
            spelling = self.spelling((*path, attribute), attribute_shape, types.get(attribute), shape)
            result.members[attribute] = Member(steps, spelling)
            if steps and not written and not str(attribute_shape.source).startswith("["):
                self.place((*path, attribute), attribute, steps, result)
        for attribute, _ in schema:
            if attribute not in result.members and (member := _default(attribute, shape)) is not None:
                result.members[attribute] = member
        if written:
            self.check_written(name, shape, schema, result.members)
            if shape.coerce:
                self.report.problem(("streams", name, "coerce"), "no coerce, as an operator writes this stream")
        else:
            self.check_read(path, shape, result)
        return result

    # ---- paths ----

    def check_direction(self, path: Path, member: MemberShape, *, written: bool) -> None:
        """Checks that only a stream that is read has `from`, and only one that is written has `as` (PA6, PA7)."""
        if written and member.source is not None:
            expected = "`as` for the path of the attribute, as an operator writes this stream"
            self.report.problem((*path, "from"), expected)
        if not written and member.target is not None:
            expected = "`from` for the path of the attribute, as no operator writes this stream"
            self.report.problem((*path, "as"), expected)
        if written and member.pairs is not None:
            self.report.problem((*path, "pairs"), "no pairs, as an operator writes this stream")
        if not written and member.type is None:
            self.report.problem((*path, "type"), "a type, such as string", None)

    def path(self, path: Path, member: MemberShape, *, written: bool) -> Steps | None:
        """The path of the attribute; None if the file has none, or a wrong one, which is reported."""
        key, text = ("as", member.target) if written else ("from", member.source)
        if text is None:
            return None
        if text == WHOLE and not written:
            return ()
        steps = self.steps((*path, key), text)
        if steps is not None and written and any(isinstance(step, int) for step in steps):
            self.report.problem((*path, key), "names only, as a record is written with objects and no lists", text)
            return None
        return steps

    def place(self, path: Path, attribute: str, steps: Steps, result: Members) -> None:
        """Moves the attribute to the key or to the headers if its path begins there (PA3)."""
        spelling = result.members[attribute].spelling
        if steps[0] == KEY:
            result.keys.append(attribute)
            result.members[attribute] = Member(steps[1:], spelling, KEY)
        elif steps[0] == HEADER and len(steps) == 2 and isinstance(steps[1], str):  # noqa: PLR2004 - header and its name
            result.headers[attribute] = steps[1]
            result.members[attribute] = Member((), spelling)
        elif steps[0] == HEADER:
            expected = 'header and the name of a header, such as header.trace or header["trace-id"]'
            hint = f"header[{quoted('.'.join(map(str, steps[1:])))}]" if steps[1:] else None
            self.report.problem((*path, "from"), expected, text_of(steps), hint)

    def check_read(self, path: Path, shape: StreamShape, result: Members) -> None:
        """Checks that the format of the value has members at these paths (PA5)."""
        form = FORMATS[shape.format]
        for attribute, member in result.members.items():
            elsewhere = attribute in result.keys or attribute in result.headers
            if member.path == () and not elsewhere and not form.has_documents:
                expected = f"a path, as only values of the formats {', '.join(DOCUMENTS)} may be attributes as a whole"
                self.report.problem((*path, attribute, "from"), expected, WHOLE)
                result.members[attribute] = replace(member, path=None)
            if form.has_paths or elsewhere or not member.path:
                continue
            if shape.format != "csv":
                expected = f"key or header.NAME, as a value of the format {shape.format} has no members"
                self.report.problem((*path, attribute, "from"), expected)
            elif shape.columns is None:
                expected = "`columns` of the stream, a list of the names of all fields, as the format is csv"
                self.report.problem((*path, attribute, "from"), expected)
            elif len(member.path) > 1 or isinstance(member.path[0], int):
                expected = f"one of the columns ({', '.join(shape.columns)}), as the format is csv"
                self.report.problem((*path, attribute, "from"), expected)

    def check_written(self, name: str, shape: StreamShape, schema: Schema, members: Mapping[str, Member]) -> None:
        """Checks that the record has one place for each attribute (PA8, PA9)."""
        paths = {attribute: _path(attribute, members) for attribute, _ in schema}
        nested = [attribute for attribute, path in paths.items() if len(path) > 1]
        if nested and shape.topic is not None and shape.format not in NESTED:
            expected = f"a format with objects ({', '.join(NESTED)}), as {nested[0]} is in an object"
            self.report.problem(("streams", name, "format"), expected)
        for (attribute, path), (other, longer) in permutations(paths.items(), 2):
            earlier = list(paths).index(attribute) < list(paths).index(other)
            if longer[: len(path)] == path and (earlier or longer != path):
                expected = f"a path apart from that of {attribute}, which is {text_of(path)}"
                self.report.problem(("streams", name, "schema", other), expected, text_of(longer))

    # ---- spellings ----

    def spelling(self, path: Path, member: MemberShape, type_: Type | None, shape: StreamShape) -> Spelling:
        """How the values of the attribute are spelled. Checks that the keys fit its type, if it is known (PA11 to
        PA13, PA16, PA17).
        """
        keys = {key: value for key in SPELLING if (value := getattr(member, key)) is not None}
        outer = self.own(path, keys, type_, shape, coerce=shape.coerce)
        is_mapping = isinstance((shape.attributes or {})[str(path[-1])], MemberShape)
        inner = (*path, "type") if is_mapping else path
        return _merged(outer, self.inside(inner, value_of(member.type), type_, shape, coerce=outer.coerce))

    def inside(self, path: Path, value: object, type_: Type | None, shape: StreamShape, *, coerce: bool) -> Spelling:
        """The spelling in the `value` that the file has for a type (PA16). `coerce` is that of the value around it."""
        if isinstance(value, list):
            return self.inside((*path, 0), value[0], _element(type_), shape, coerce=coerce)
        if not isinstance(value, dict):
            return Spelling(coerce)
        if is_spelled(value):
            outer = self.own(path, value, type_, shape, coerce=coerce)
            return _merged(outer, self.inside((*path, "type"), value["type"], type_, shape, coerce=outer.coerce))
        members = [
            (name, self.inside((*path, name), inner, _member(type_, name), shape, coerce=coerce))
            for name, inner in value.items()
        ]
        return Spelling(coerce, inside=tuple(member for member in members if member[1] != Spelling(coerce)))

    def own(
        self, path: Path, keys: Mapping[str, Any], type_: Type | None, shape: StreamShape, *, coerce: bool
    ) -> Spelling:
        """The spelling that these keys of the file give; reports keys that the type or the stream does not take."""
        for key in ("unit", "pattern", "zone"):
            if key in keys and type_ is not None and not _is_time(type_):
                self.report.problem((*path, key), f"no {key}, as the attribute is {type_.described} and no timestamp")
            elif key != "zone" and key in keys and shape.exchange:
                self.report.problem((*path, key), f"no {key}, as the tuples of an exchange return as they were")
        if "unit" in keys and "pattern" in keys:
            self.report.problem((*path, "unit"), "either a unit of numbers or a pattern of texts")
        if keys.get("unit", "s") not in UNITS:
            self.report.problem((*path, "unit"), f"one of {', '.join(UNITS)}", keys["unit"])
        self.check_pattern(path, keys.get("pattern"), keys.get("zone"))
        return Spelling(
            keys.get("coerce", coerce), keys.get("unit", ""), keys.get("pattern", ""), keys.get("zone", ""),
            pairs=self.pairs((*path, "pairs"), keys["pairs"], type_) if "pairs" in keys else None,
        )  # fmt: skip

    def check_pattern(self, path: Path, pattern: str | None, zone: str | None) -> None:
        wrong = None if pattern is None else time_patterns.fault(pattern)
        if wrong is not None:
            self.report.problem((*path, "pattern"), wrong[0], pattern, wrong[1])
        if zone is None:
            return
        if pattern is None or "%z" in pattern:
            expected = "no zone without a pattern" if pattern is None else "no zone, as %z of the pattern has it"
            self.report.problem((*path, "zone"), expected)
        elif not is_zone(zone):
            near = nearest(zone, sorted(available_timezones().difference(ZONES_OF_THE_MACHINE)))
            expected = "a time zone by its name in the time zone database, such as Europe/Berlin"
            self.report.problem((*path, "zone"), expected, zone, near)

    def pairs(self, path: Path, value: PairsShape | Mapping[str, Any], type_: Type | None) -> Pairs | None:
        """Where the entries of a map are in a list of objects (PA17); None if the file is wrong."""
        if type_ is not None and not _is_map(type_):
            self.report.problem(path, f"no pairs, as the attribute is {type_.described} and no map")
        shape = value if isinstance(value, PairsShape) else PairsShape.model_validate(value)
        key, *values = (
            self.steps((*path, name), text) for name, text in [("key", shape.key), *(("value", v) for v in shape.value)]
        )
        if key is None or None in values:
            return None
        return Pairs(key, tuple(steps for steps in values if steps is not None))

    def steps(self, path: Path, text: str) -> Steps | None:
        try:
            return member_path(text)
        except PathError as error:
            self.report.fault(path, error.fault)
            return None


def value_of(type_: str | None) -> object:
    """The value of a type in the file."""
    return type_.value if isinstance(type_, TypeText) else type_


def _merged(outside: Spelling, inner: Spelling) -> Spelling:
    """The spelling of an attribute with that of the values inside of its type."""
    outer = {key: value for key in ("unit", "pattern", "zone", "pairs") if (value := getattr(outside, key))}
    return replace(inner, **outer)


def _element(type_: Type | None) -> Type | None:
    return None if type_ is None else type_.present.element


def _member(type_: Type | None, name: str) -> Type | None:
    present = None if type_ is None else type_.present
    return dict(present.members).get(name) if isinstance(present, StructType) else None


def _innermost(type_: Type) -> Type:
    """The type of the values, or of those in a list."""
    present = type_.present
    return present if present.element is None else _innermost(present.element)


def _is_time(type_: Type) -> bool:
    return _innermost(type_).time is TimeForm.INSTANT


def _is_map(type_: Type) -> bool:
    return isinstance(_innermost(type_), MapType)


def _default(attribute: str, shape: StreamShape) -> Member | None:
    """The member of an attribute without a mapping: None if it is the strict one of its name."""
    spelling = Spelling(coerce=shape.coerce) if shape.coerce else STRICT
    if not NAME.fullmatch(attribute):
        return Member(_path(attribute, {}), spelling)
    return Member(None, spelling) if shape.coerce else None


def _path(attribute: str, members: Mapping[str, Member]) -> Steps:
    """The path of an attribute. The name of one in an object of an output is its path (PA8)."""
    member = members.get(attribute)
    if member is not None and member.path is not None:
        return member.path
    return (attribute,) if NAME.fullmatch(attribute) else member_path(attribute)


def is_path(name: str) -> bool:
    """Whether the name of an attribute is a path of names (PA8)."""
    try:
        return all(isinstance(step, str) for step in member_path(name))
    except PathError:
        return False


def steps_of(name: str) -> tuple[str, ...]:
    """The keys of the file that lead to an attribute of an output (PA8): several if it is in an object."""
    return tuple(map(str, member_path(name))) if is_path(name) else (name,)

"""How values are read as an attribute: the type of the attribute, and the options of its row in the schema."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import yaml

from sluice.config.checks.stream_checks import ATTRIBUTE
from sluice.config.syntax.expression_grammar import RESERVED
from sluice.draft import decimal_drafts
from sluice.draft.name_words import BRANCHES, is_name_of_text, is_name_of_time, measures, unit_of_time
from sluice.draft.record_tree import NAMES, VALUES, is_scaled, kind
from sluice.model.types import Type, is_too_deep, parse_type
from sluice.time_units import nanoseconds

#: percent of the values that have the form of an attribute; the others are too few to be more than mistakes
MIN_SHARE = 99
#: texts of numbers: whole ones, ones with places behind the point, and any
WHOLE = re.compile(r"-?(?:0|[1-9]\d*)", re.ASCII)
PLACES = re.compile(r"-?(?:0|[1-9]\d*)\.(\d+)", re.ASCII)
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
#: texts of float64 beside numbers
NOT_FINITE = ("NaN", "Infinity", "-Infinity")
#: percent of the values that are numbers where the others are words, of which there are at most MAX_WORDS
MIN_NUMBERS, MAX_WORDS = 50, 3
#: name of a logical type of Connect -> the exact type of a field with it
EXACT: Mapping[str, Callable[[Mapping[str, Any]], str]] = {decimal_drafts.CONNECT: decimal_drafts.type_in_connect}
#: the key of a stream that reads the bytes of exact numbers, and what is said about texts that may be such bytes
KEY_OF_BYTES, PERHAPS_BYTES = decimal_drafts.KEY_OF_BYTES, decimal_drafts.PERHAPS_BYTES
#: members of the objects of a list with types of their own, those in objects included; a list of larger ones is json
MAX_MEMBERS = 40
#: forms of times that are not ISO 8601. Day and month are told apart by a day beyond the 12th
PATTERNS = (
    "%d/%b/%Y:%H:%M:%S %z", "%a %b %d %H:%M:%S %z %Y", "%a, %d %b %Y %H:%M:%S %z", "%a, %d %b %Y %H:%M:%S GMT",
    "%Y%m%d-%H:%M:%S.%f", "%Y%m%d-%H:%M:%S", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%Y/%m/%d %H:%M:%S", "%d-%m-%Y %H:%M:%S",
    "%d-%b-%Y %H:%M:%S", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y-%m-%d %H:%M:%S %z", "%Y-%m-%d %H:%M:%S.%f %z",
    "%Y-%m-%d %H:%M:%S.%f %z UTC", "%Y-%m-%d %H:%M:%S UTC", "%Y-%m-%d %H:%M:%S.%f UTC", "%Y/%m/%d %H:%M:%S.%f",
    "%Y/%m/%d %H:%M", "%d.%m.%Y %H:%M:%S.%f", "%d/%m/%Y %H:%M:%S.%f", "%m/%d/%Y %H:%M:%S.%f", "%m/%d/%Y %I:%M:%S %p",
    "%d/%m/%Y %I:%M:%S %p", "%m/%d/%Y %I:%M %p", "%b %d, %Y %I:%M:%S %p", "%b %d, %Y %H:%M:%S", "%b %d %Y %H:%M:%S",
    "%d %b %Y %H:%M:%S", "%d/%b/%Y %H:%M:%S", "%a %b %d %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S",
    "%a %b %d %H:%M:%S %Y UTC", "%a %b %d %H:%M:%S UTC %Y", "%a %b %d %H:%M:%S GMT %Y", "%Y%m%d %H:%M:%S.%f",
    "%Y%m%d %H:%M:%S", "%Y%m%d %H%M%S", "%Y%m%dT%H%M%SZ", "%Y%m%dT%H%M%S.%fZ", "%Y%m%dT%H%M%S%z",
    "%Y%m%dT%H%M%S", "%Y.%m.%d %H:%M:%S.%f", "%Y.%m.%d %H:%M:%S", "%Y.%m.%d %H:%M", "%Y-%m-%d-%H.%M.%S.%f",
    "%d-%b-%y %I.%M.%S.%f %p", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%b %d, %Y",
)  # fmt: skip
#: the form of a time in digits alone, which looks like a number but for the name of the attribute
DIGITS_OF_TIME, COUNT_OF_DIGITS = "%Y%m%d%H%M%S", 14


@dataclass(frozen=True, slots=True)
class Form:
    """How an attribute is read.

    type     the type, without `?`
    unit     of a number that is a time; empty for other values
    pattern  of a text that is a time, in another form than ISO 8601; empty for other values
    coerce   whether texts stand for numbers or times
    base64   whether texts are the bytes of an exact number in base64, as Connect writes them
    words    whether most of the texts are those of numbers, and some are words such as `VRB`
    pairs    where the objects of a list have the names and values of a map, as the file has it; empty if it is no map
    inside   what the file has in place of the type if values inside of it have options (PA16); else empty
    strict   the type without these options
    """

    type: str
    unit: str = ""
    pattern: str = ""
    coerce: bool = False
    base64: bool = False
    words: bool = False
    pairs: str = ""
    inside: str = ""
    strict: str = ""

    @property
    def without_inside(self) -> Form:
        """The form without options of inner values, as a file has no place for them in a type with `?` (PA16)."""
        return replace(self, type=self.strict, inside="", strict="") if self.inside else self

    @property
    def plain(self) -> bool:
        """Whether the form is the usual one of its type, so that a file needs no spelling for it."""
        return not self.options

    @property
    def options(self) -> dict[str, str]:
        """The options in the schema, without the type: key -> text."""
        texts = {"unit": self.unit, "pattern": json.dumps(self.pattern) if self.pattern else ""}
        texts |= {"coerce": "true" if self.coerce else "", "pairs": self.pairs}
        return {key: text for key, text in texts.items() if text}

    @property
    def is_number(self) -> bool:
        return self.type in ("int64", "float64") or self.is_exact

    @property
    def is_exact(self) -> bool:
        """Whether the values are numbers with all of their digits."""
        return parse_type(self.type).exact

    @property
    def without_digits(self) -> Form:
        """The form in a stream with `base64`, which reads each decimal as bytes: here a decimal has another type."""
        if self.base64 or not _has_exact(parse_type(self.type)):
            return self
        return Form(decimal_drafts.other_type(self.type), coerce=True) if self.is_exact else Form("json")

    @property
    def is_text(self) -> bool:
        return self.type in ("string", "json")


class Fit(NamedTuple):
    """The form of values, and their sort if values of other sorts do not have it: too few to be more than mistakes."""

    form: Form
    sort: str = ""

    def accepts(self, value: object) -> bool:
        return not self.sort or kind(value) == self.sort


def fit(name: str, values: Sequence[Any]) -> Fit | None:
    """The form of the values of an attribute with this name; None if there is no value with an item."""
    form = form_of(name, values)
    if form is None:
        return None
    if form.type != "json" and not form.words:
        return Fit(form)
    usual, count = Counter(map(kind, values)).most_common(1)[0]
    if count < len(values) and 100 * count >= MIN_SHARE * len(values):
        of_most = form_of(name, [value for value in values if kind(value) == usual])
        return Fit(of_most, usual) if of_most else None
    return Fit(form)


def form_of(name: str, values: Sequence[Any]) -> Form | None:
    """The form that all of the values have; None if there are only empty lists, or no values."""
    if not any(map(_has_items, values)):
        return None
    for rule in RULES:
        form = rule(name, values)
        if form is not None:
            return Form("json") if is_too_deep(form.type) else form
    return Form("json")


def _has_items(value: object) -> bool:
    """Whether a value is neither an empty list nor an empty object, nor a list of such."""
    if isinstance(value, list):
        return any(map(_has_items, value))
    return value != {}


def _boolean(_: str, values: Sequence[Any]) -> Form | None:
    if all(isinstance(value, bool) for value in values):
        return Form("boolean")
    mixed = any(isinstance(value, bool) for value in values)
    return Form("boolean", coerce=True) if mixed and all(_is_boolean(value) for value in values) else None


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool) or (type(value) in (int, str) and value in (0, 1, "0", "1", "true", "false"))


def _number(name: str, values: Sequence[Any]) -> Form | None:
    """The form of numbers, and of numbers beside texts of numbers."""
    if not all(_is_number(value) for value in values) or all(isinstance(value, str) for value in values):
        return None
    if any(value in NOT_FINITE for value in values):
        return Form("float64")
    numbers = [_as_number(value) for value in values]
    coerce = any(isinstance(value, str) for value in values)
    if unit := unit_of_time(name, numbers):
        return Form("timestamp", unit=unit, coerce=coerce)
    if any(isinstance(number, float) for number in numbers):
        return Form("float64", coerce=coerce)
    if max(map(abs, numbers)) < 1 << 63:
        return Form("int64", coerce=coerce)
    exact = "" if is_name_of_text(name) else decimal_drafts.type_of_whole(numbers)
    return Form(exact) if exact else Form("string", coerce=True)


def _is_number(value: object) -> bool:
    text = isinstance(value, str) and (value in NOT_FINITE or NUMBER.fullmatch(value) is not None)
    return type(value) in (int, float) or text


def _as_number(value: Any) -> int | float:  # noqa: ANN401 - a JSON value
    return (int(value) if WHOLE.fullmatch(value) else float(value)) if isinstance(value, str) else value


def _time_as_text(name: str, values: Sequence[Any]) -> Form | None:
    if not all(isinstance(value, str) for value in values):
        return None
    if all(_is_iso(value) for value in values):
        return None if is_name_of_text(name) else Form("timestamp")
    patterns = [pattern for pattern in PATTERNS if all(_matches(value, pattern) for value in values)]
    if len({tuple(_time_of(value, pattern) for value in values) for pattern in patterns}) > 1:
        return None  # the day or the month may come first
    if is_name_of_time(name) and all(map(_is_digits_of_time, values)):
        return Form("timestamp", pattern=DIGITS_OF_TIME)
    return Form("timestamp", pattern=patterns[0]) if patterns else _count_as_text(name, values)


def _is_digits_of_time(text: str) -> bool:
    return len(text) == COUNT_OF_DIGITS and _matches(text, DIGITS_OF_TIME)


def _count_as_text(name: str, values: Sequence[str]) -> Form | None:
    """The form of texts of numbers that are times since 1970."""
    if not is_name_of_time(name) or not all(NUMBER.fullmatch(value) for value in values):
        return None
    unit = unit_of_time(name, [_as_number(value) for value in values])
    return Form("timestamp", unit=unit, coerce=True) if unit else None


def _is_iso(text: str) -> bool:
    with suppress(ValueError):
        return abs(nanoseconds(text)) < 1 << 63
    return False


def _matches(text: str, pattern: str) -> bool:
    with suppress(ValueError):
        return bool(_time_of(text, pattern))
    return False


def _time_of(text: str, pattern: str) -> datetime:
    time = datetime.strptime(text, pattern)  # noqa: DTZ007 - the next line has the zone
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _number_as_text(name: str, values: Sequence[Any]) -> Form | None:
    if not all(isinstance(value, str) and NUMBER.fullmatch(value) for value in values) or is_name_of_text(name):
        return None
    if all(WHOLE.fullmatch(value) for value in values):
        small = max(abs(int(value)) for value in values) < 1 << 63
        return Form("int64", coerce=True) if small and measures(name) else None
    places = {len(match[1]) if (match := PLACES.fullmatch(value)) else None for value in values}
    scale = places.pop()
    return (
        Form("float64", coerce=True) if places or scale is None else Form(decimal_drafts.type_of_texts(scale, values))
    )


def _scaled(_: str, values: Sequence[Any]) -> Form | None:
    """The form of Debezium's numbers without a fixed scale."""
    if not all(map(is_scaled, values)):
        return None
    return Form(decimal_drafts.type_of_scales([value["scale"] for value in values]), base64=True)


def _number_or_word(name: str, values: Sequence[Any]) -> Form | None:
    """The form of numbers among which are a few words, such as VRB among the directions of the wind."""
    if not all(_is_number(value) or isinstance(value, str) for value in values) or is_name_of_text(name):
        return None
    words = [value for value in values if not _is_number(value)]
    few = len(set(words)) <= MAX_WORDS and 100 * len(words) < (100 - MIN_NUMBERS) * len(values)
    coerce = not all(isinstance(value, str) for value in values)
    return Form("string", coerce=coerce, words=True) if few and words else None


def _text(_: str, values: Sequence[Any]) -> Form | None:
    return Form("string") if all(isinstance(value, str) for value in values) else None


def _pairs(_: str, values: Sequence[Any]) -> Form | None:
    """The form of lists of names and values; the values are texts, or objects with a text by the name of its type."""
    if not all(isinstance(value, list) for value in values):
        return None
    name, paths = names_and_values([item for value in values for item in value])
    if not name or not all(len({item[name] for item in value}) == len(value) for value in values):
        return None
    places = ", ".join(paths)
    return Form("map<string, string>", pairs=f"{{key: {name}, value: {places if len(paths) == 1 else f'[{places}]'}}}")


def names_and_values(items: Sequence[Any]) -> tuple[str, list[str]]:
    """The member of all items with their name, and the paths of their values; empty if they are no pairs with texts."""
    objects = [item for item in items if isinstance(item, dict)]
    key = next((key for key in NAMES if all(isinstance(item.get(key), str) for item in objects)), "")
    value = next((member for member in VALUES if all(member in item for item in objects)), "")
    if not key or not value or len(objects) < len(items) or any(item.keys() - {key, value, "type"} for item in objects):
        return "", []
    inner = [item[value] for item in objects]
    if all(isinstance(content, str) for content in inner):
        return key, [value]
    branches = {name: type(content[name]) for content in inner if isinstance(content, dict) for name in content}
    typed = all(isinstance(content, dict) and len(content) == 1 for content in inner) and all(map(_is_branch, branches))
    return (key, [f"{value}.{name}" for name in branches]) if typed and set(branches.values()) == {str} else ("", [])


def _is_branch(name: str) -> bool:
    return name in BRANCHES or name.endswith("Value")


def _list(_: str, values: Sequence[Any]) -> Form | None:
    if not all(isinstance(value, list) and None not in value for value in values):
        return None
    items = [item for value in values for item in value]
    if not items or not all(isinstance(item, dict) for item in items):
        form = _plain(items)
        return form and Form(f"list<{form.type}>")
    struct, strict = _struct(items), _struct(items, spelled=False)
    if struct is None or strict is None or struct.type.count(": ") > MAX_MEMBERS:
        return None
    inside = f"[{struct.text}]" if struct.text != strict.text else ""
    return Form(f"list<{struct.type}>", inside=inside, strict=f"list<{strict.type}>" if inside else "")


class Inner(NamedTuple):
    """The type of a value inside of another one, and what the file has for it: with its options a mapping (PA16)."""

    type: str
    text: str

    @classmethod
    def of(cls, form: Form, *, optional: bool) -> Inner:
        type_ = f"{form.type}{'?' if optional else ''}"
        settings = {"type": quoted_type(type_)} | form.options
        text = f"{{{', '.join(f'{key}: {value}' for key, value in settings.items())}}}" if form.options else ""
        return cls(type_, text or form.inside or quoted_type(type_))


def _struct(objects: Sequence[dict[str, Any]], *, spelled: bool = True) -> Inner | None:
    """The type of objects, with the members that have a name and a value; None if there are none.

    spelled   whether members have options
    """
    members: dict[str, Inner] = {}
    for name in {name: None for value in objects for name in value}:
        present = [value[name] for value in objects if value.get(name) is not None]
        if present and ATTRIBUTE.fullmatch(name) and name not in RESERVED:
            inner = _member(name, present, optional=len(present) < len(objects), spelled=spelled)
            members |= {name: inner} if inner else {}
    if not members:
        return None
    types = ", ".join(f"{name}: {inner.type}" for name, inner in members.items())
    texts = ", ".join(f"{yaml_word(name)}: {inner.text}" for name, inner in members.items())
    return Inner(f"tuple<{types}>", f"{{{texts}}}")


def _member(name: str, values: Sequence[Any], *, optional: bool, spelled: bool) -> Inner | None:
    """The type of a member. One that is optional, and has members itself, has no options in it."""
    if all(isinstance(value, dict) for value in values):
        struct = _struct(values, spelled=spelled and not optional)
        return Inner.of(Form(struct.type), optional=True) if struct and optional else struct
    form = form_of(name, values)
    if form is not None and form.pairs:
        form = _list(name, values)
    if form is None:
        return None
    form = form.without_inside if optional or not spelled else form
    return Inner.of(form if form.plain or spelled else _strict(values), optional=optional)


def _strict(values: Sequence[Any]) -> Form:
    """The form without options: a number that is a time is a number, and another time a text."""
    if all(isinstance(value, str) for value in values):
        return Form("string")
    numbers = all(type(value) in (int, float) for value in values)
    return Form("json" if not numbers else "int64" if all(type(value) is int for value in values) else "float64")


def _map(_: str, values: Sequence[Any]) -> Form | None:
    if not all(isinstance(value, dict) and None not in value.values() for value in values):
        return None
    form = _plain([member for value in values for member in value.values()])
    return form and Form(f"map<string, {form.type}>")


def _plain(items: Sequence[Any]) -> Form | None:
    """The form of items, which have no options: texts are texts. None for objects, and for items of several kinds."""
    if any(isinstance(item, dict) for item in items):
        return None
    form = Form("string") if all(isinstance(item, str) for item in items) else form_of("", items)
    return form if form is not None and form.plain and form.type != "json" else None


def _has_exact(type_: Type) -> bool:
    return type_.exact or any(map(_has_exact, type_.parts))


def yaml_word(text: str) -> str:
    """A text as YAML; in quotes if YAML would read it as something else.

    What begins with a digit, a point or a sign is in quotes, too: the pipeline file reads numbers such as 0E0 that
    PyYAML reads as texts.
    """
    try:
        plain: Any = yaml.safe_load(text)
    except yaml.YAMLError:
        plain = None
    return text if plain == text and re.fullmatch(r"[^\W\d][\w.()-]*", text) else json.dumps(text)


def quoted_type(type_: str) -> str:
    """A type as YAML, within a mapping in one line."""
    return f'"{type_}"' if {",", ":"} & set(type_) else type_


#: a rule gives the form of values, if all of them have it
RULES: tuple[Callable[[str, Sequence[Any]], Form | None], ...] = (
    _boolean, _number, _time_as_text, _number_as_text, _number_or_word, _text, _scaled, _pairs, _list, _map,
)  # fmt: skip


def kinds(values: Sequence[Any]) -> Iterator[tuple[str, int]]:
    """The kinds of the values with their numbers, the most frequent first."""
    yield from Counter(map(kind, values)).most_common()

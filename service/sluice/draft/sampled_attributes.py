"""The attributes of sampled records: their types, and what their names and values suggest that they stand for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from sluice.columns.json_columns import fits
from sluice.config.checks.stream_checks import ATTRIBUTE
from sluice.config.syntax.expression_grammar import RESERVED
from sluice.model.types import BOOLEAN, FLOAT64, INT64, STRING, TIMESTAMP, Type, list_of

#: times since 1970: the numbers from September 2001 to December 2099 have 10 digits or more in seconds
FIRST_SECOND, LAST_SECOND = 10**9, 4_102_444_800
SECONDS = "seconds"
#: unit of a time since 1970 -> units in a second
UNITS = {SECONDS: 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}

#: the words of a name: `lastSeen_at2` is last, seen, at and 2
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
#: words of a name that holds a time. Numbers of ten digits are seconds only below such a name: they may be keys, too
TIMES = frozenset(WORD.findall(
    "time timestamp ts date datetime dt epoch at when now utc t created updated modified changed deleted started "
    "start ended end begin since until expires expiry exp iat nbf seen contact reported received sent posted "
    "published observed measured sampled recorded captured clock instant moment unix"
))  # fmt: skip
TIME_ENDS = ("time", "timestamp", "date")
#: words of a name whose numbers name or place something: their average means nothing
KEYS = frozenset(WORD.findall(
    "id ids uid uuid guid gid pid tid oid key zip zipcode postal postcode port code codes version ver revision "
    "rev year month day hour minute weekday week nr num number seq sequence index idx offset partition hash crc "
    "checksum phone fax account acct icao mmsi imo serial sku isbn ean upc gtin asin ref status type kind class "
    "category flag flags zone channel route trip line block ssn iban bin mcc mnc imei imsi vin asn ip squawk lat "
    "lon lng latitude longitude user order customer device sensor station severity facility priority rank stage gate "
    "terminal node shard thread process errno"
))  # fmt: skip
#: ends of names in one word, such as userid; of them `bid`, `humid` and `paid` are not
KEY_ENDS = ("userid", "orderid", "deviceid", "sensorid", "stationid", "customerid", "productid", "sessionid", "zipcode")
#: words of a name whose numbers measure something
MEASURES = frozenset(WORD.findall(
    "price amount value temp temperature humidity pressure speed velocity size qty quantity volume count total "
    "duration latency elapsed bytes rate level power energy voltage volts current amps watts usage load cost fare "
    "tip distance weight height depth score mag magnitude altitude alt cpu memory mem co pm rssi snr battery wind "
    "rain aqi bid ask open close high low bpm heart steps rpm torque flow delay age income salary sales revenue "
    "balance rating"
))  # fmt: skip
#: keys: whole numbers that all differ, of at least this many records, and either grow or are at least MIN_KEY
MIN_RECORDS, MIN_KEY = 8, 10**6


def unit_of_time(name: str, values: Sequence[Any]) -> str | None:
    """The unit in which all of these numbers are times from 2001 to 2099; None if there is no such unit."""
    if not values:
        return None
    least, most = min(values), max(values)
    units = (unit for unit, count in UNITS.items() if FIRST_SECOND * count <= least and most < LAST_SECOND * count)
    unit = next(units, None)
    return None if unit == SECONDS and not is_name_of_time(name) else unit


def is_name_of_time(name: str) -> bool:
    return name.lower().endswith(TIME_ENDS) or not TIMES.isdisjoint(words(name))


def words(name: str) -> list[str]:
    return [word.lower() for word in WORD.findall(name)]


def measures(name: str) -> bool:
    return not MEASURES.isdisjoint(words(name)) and not _ends_as_key(name)


def is_key(name: str, values: Sequence[Any]) -> bool:
    """Whether the numbers name or place something rather than measure it. The last word of a name counts most."""
    if _ends_as_key(name) or measures(name):
        return not measures(name)
    differ = _all_differ(values) and (min(values) >= MIN_KEY or _grow(values))
    return differ or not KEYS.isdisjoint(words(name))


def _ends_as_key(name: str) -> bool:
    last = next((word for word in reversed(words(name)) if not word.isdigit()), "")
    return last in KEYS or name.lower().endswith(KEY_ENDS)


def _all_differ(values: Sequence[Any]) -> bool:
    whole = all(type(value) is int for value in values)
    return whole and len(values) >= MIN_RECORDS and len(set(values)) == len(values)


def _grow(values: Sequence[Any]) -> bool:
    return all(earlier < later for earlier, later in pairwise(values))


#: the possible types of an attribute. It gets the type that most of its values have: of several such types, the first
SCALARS = (BOOLEAN, INT64, FLOAT64, TIMESTAMP, STRING)
#: the most lists within lists that an attribute gets
MAX_DEPTH = 4
#: the value for records without the attribute, by type. Of a measurement it is NaN: a 0 would count in an average
DEFAULTS: Mapping[Type, Any] = {BOOLEAN: False, INT64: 0, FLOAT64: "NaN", STRING: "", TIMESTAMP: "1970-01-01T00:00:00Z"}
#: characters of a value in a comment
MAX_EXAMPLE = 40
#: what stands for the type of a value without a type, and of a list whose values have no common type
NO_TYPES = ("no type", "a list of several types")
#: the same of an object, and of a list with objects
OBJECTS = ("object", "a list of objects")
#: percent of the values that have the type of an attribute; the others are too few to be more than mistakes
MIN_SHARE = 99
#: types in a comment about values without a common type
MAX_TYPES = 4
#: names of an attribute that holds the key of the record; the first that no other attribute has is taken
KEY_NAMES = ("key", "record_key", "kafka_key")

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of the records.

    values    its values, without null; if the attribute has a type, only the values that the type accepts
    absence   in which records it is missing or null, as a text; empty: in none
    type      None: its values have no common type of pipeline files
    problem   why it cannot be an attribute of a stream; empty if it can
    in_key    whether it is the key of the record
    unfit     the values that the type does not accept: a record with one is a dead letter
    """

    name: str
    values: Sequence[Any]
    absence: str
    type: Type | None
    problem: str = ""
    in_key: bool = False
    unfit: Sequence[Any] = ()

    @property
    def default(self) -> Any:  # noqa: ANN401 - a JSON value
        assert self.type is not None  # noqa: S101 - it has no problem
        return [] if self.type.element else DEFAULTS[self.type]

    @property
    def example(self) -> str:
        """A value as JSON, in one line of ASCII; empty if there is no value."""
        return example_of(self.values)

    @property
    def unit(self) -> str | None:
        """The unit in which all values are times from 2001 to 2099, if they are numbers; else None."""
        numbers = [value for value in self.values if type(value) in (int, float)]
        return unit_of_time(self.name, numbers) if len(numbers) == len(self.values) else None

    @property
    def resolution(self) -> str | None:
        """The resolution as an event time, of an int64."""
        return self.unit if self.type == INT64 and self.unit != SECONDS else None

    @property
    def is_time(self) -> bool:
        """Whether it can be the event time."""
        return self.type == TIMESTAMP or bool(self.resolution) or (self.type == FLOAT64 and self.unit == SECONDS)

    @property
    def is_measurement(self) -> bool:
        """Whether an average of its values may mean something."""
        return self.type in (INT64, FLOAT64) and not self.unit and not is_key(self.name, self.values)


def example_of(values: Sequence[Any]) -> str:
    """The first value as JSON, in one line of ASCII; empty if there is no value."""
    text = json.dumps(values[0]) if values else ""
    return text if len(text) <= MAX_EXAMPLE else f"{text[:MAX_EXAMPLE]}..."


def json_attributes(documents: Sequence[Document]) -> list[Attribute]:
    """The attributes in the order in which they first occur."""
    names = dict.fromkeys(name for document in documents for name in document)
    return [_json_attribute(name, documents) for name in names]


def as_drafted(attribute: Attribute, seconds: Type) -> Attribute:
    """The attribute with the type that suits its role: `seconds` for seconds since 1970, and float64, which has NaN for
    the records without it, for whole numbers that measure something in some of the records.
    """
    if attribute.type in (INT64, FLOAT64) and attribute.unit == SECONDS:
        return replace(attribute, type=seconds)
    if attribute.type == INT64 and attribute.absence and attribute.is_measurement and not attribute.problem:
        return replace(attribute, type=FLOAT64)
    return attribute


def best_measurement(attributes: Sequence[Attribute]) -> Attribute | None:
    """The attribute whose average is drafted: one with the name of a measurement, of several such attributes one that
    all records have, then a float64, then the first one. None if no attribute measures something.
    """
    possible = [attribute for attribute in attributes if attribute.is_measurement]
    return min(
        possible,
        key=lambda attribute: (not measures(attribute.name), bool(attribute.absence), attribute.type != FLOAT64),
        default=None,
    )


def with_key(attributes: list[Attribute], documents: Sequence[Document], keys: Sequence[str | None]) -> list[Attribute]:
    """The attributes and, if the records have keys that group them and no attribute has these, the key as another one.

    `keys` has the key of each document, None if there is none or if it is no text.
    """
    texts = [key for key in keys if key is not None]
    repeated = 1 < len(set(texts)) <= len(texts) // 2
    if len(texts) < len(documents) or not repeated or key_attribute(attributes, documents, keys):
        return attributes
    name = unused_key_name(attributes)
    return attributes if name is None else [*attributes, Attribute(name, texts, "", STRING, in_key=True)]


def unused_key_name(attributes: Sequence[Attribute]) -> str | None:
    """A name for an attribute that holds the key of the record; None if all such names are taken."""
    names = {attribute.name for attribute in attributes}
    return next((name for name in KEY_NAMES if name not in names), None)


def group_attribute(
    attributes: Sequence[Attribute], documents: Sequence[Document], keys: Sequence[str | None]
) -> str | None:
    """The attribute by which the records may be grouped; None if none is suitable.

    It is the attribute that holds the key of the record or, if none does, the text with the fewest values among texts
    whose values repeat.
    """
    in_key = next((attribute.name for attribute in attributes if attribute.in_key), None)
    by_key = in_key or key_attribute(attributes, documents, keys)
    if by_key is not None:
        return by_key
    counts = {
        attribute.name: len(set(attribute.values)) for attribute in _usable(attributes) if attribute.type == STRING
    }
    repeated = [
        attribute.name for attribute in attributes if 1 < counts.get(attribute.name, 0) <= len(attribute.values) // 2
    ]
    return min(repeated, key=counts.__getitem__, default=None)


def key_attribute(
    attributes: Sequence[Attribute], documents: Sequence[Document], keys: Sequence[str | None]
) -> str | None:
    """The attribute that is equal to the key of each record that has a key; None if there is none, or no key."""
    keyed = [(document, key) for document, key in zip(documents, keys, strict=True) if key is not None]
    for attribute in _usable(attributes):
        if keyed and all(str(document.get(attribute.name)) == key for document, key in keyed):
            return attribute.name
    return None


def problem_of(name: str) -> str:
    """Why a field cannot be an attribute of a stream; empty if it can."""
    if not ATTRIBUTE.fullmatch(name):
        return "a name has letters, digits and underscores"
    if name in RESERVED:
        return "the name is a word of expressions"
    return ""


def _usable(attributes: Sequence[Attribute]) -> Iterator[Attribute]:
    for attribute in attributes:
        if not attribute.problem and not attribute.absence and attribute.type in (STRING, INT64):
            yield attribute


def _json_attribute(name: str, documents: Sequence[Document]) -> Attribute:
    values = [value for document in documents if (value := document.get(name)) is not None]
    absent = len(documents) - len(values)
    absence = f"missing or null in {absent} of {len(documents)} records" if absent else ""
    type_ = _common_type(values)
    problem = ("" if type_ else _json_problem(values)) or problem_of(name) or ("" if type_ else _conflict(name, values))
    if type_ is None:
        return Attribute(name, values, absence, None, problem)
    accepted = [value for value in values if fits(value, type_)]
    unfit = [value for value in values if not fits(value, type_)]
    return Attribute(name, accepted, absence, type_, problem, unfit=unfit)


def _common_type(values: Sequence[Any]) -> Type | None:
    """The type that all or nearly all of the values have; None if there is none."""
    if not values:
        return None
    candidates = _candidates(values)
    counts = {candidate: sum(_is(value, candidate) for value in values) for candidate in candidates}
    most = max(candidates, key=counts.__getitem__)  # the first one of several
    if most.element and not any(_has_items(value) for value in values):
        return None
    return most if 100 * counts[most] >= MIN_SHARE * len(values) else None


def _candidates(values: Sequence[Any]) -> list[Type]:
    """The types that the values may have, types of scalars first."""
    depth = min(MAX_DEPTH, max(map(_depth, values)))
    types = [list(SCALARS)]
    for _ in range(depth):
        types.append([list_of(element) for element in types[-1]])
    return [element for of_depth in types for element in of_depth]


def _depth(value: object) -> int:
    """How many lists are around the innermost items of a value; no more than MAX_DEPTH + 1 levels are searched."""
    depth, level = 0, [value]
    while depth <= MAX_DEPTH and any(isinstance(element, list) for element in level):
        depth, level = depth + 1, [item for element in level if isinstance(element, list) for item in element]
    return depth


def _has_items(value: object) -> bool:
    """Whether a value is no list, or has an item that is none."""
    return any(map(_has_items, value)) if isinstance(value, list) else True


def _conflict(name: str, values: Sequence[Any]) -> str:
    """The types of values without a common type, the most frequent first, with an example of each other one."""
    seen: dict[str, list[Any]] = {}
    for value in values:
        seen.setdefault(_type_name(value), []).append(value)
    for narrow, wide in ((INT64, FLOAT64), (TIMESTAMP, STRING)):
        if str(wide) in seen:
            seen[str(wide)] += seen.pop(str(narrow), [])
    (most, of_most), *others = sorted(seen.items(), key=lambda typed: -len(typed[1]))
    shown = [f"{most} in {len(of_most)}"]
    shown += [f"{kind} in {len(few)} (such as {example_of(few)})" for kind, few in others[: MAX_TYPES - 1]]
    more = f" and {len(seen) - MAX_TYPES} more types" if len(seen) > MAX_TYPES else ""
    chosen = f"; with {name}: {most} the others are dead letters" if most not in (*NO_TYPES, *OBJECTS) else ""
    return f"its values have no common type: {', '.join(shown)}{more} of {len(values)} records{chosen}"


def _type_name(value: object) -> str:
    type_ = next((candidate for candidate in _candidates([value]) if _is(value, candidate)), None)
    if type_ is not None:
        return str(type_)
    items = value if isinstance(value, list) else []
    objects = isinstance(value, dict) or any(_type_name(item) in OBJECTS for item in items)
    return (OBJECTS if objects else NO_TYPES)[isinstance(value, list)]


def _is(value: object, type_: Type) -> bool:
    """Whether a value has a type. A number is no timestamp here, though the decoder takes it as seconds since 1970."""
    if type_.element is not None:
        element = type_.element
        return isinstance(value, list) and all(_is(item, element) for item in value)
    return fits(value, type_) and (type_ != TIMESTAMP or isinstance(value, str))


def _json_problem(values: Sequence[Any]) -> str:
    if not values:
        return "it is always null"
    if all(_type_name(value) in OBJECTS for value in values):
        kind = "an object" if isinstance(values[0], dict) else "a list of objects"
        return f"it is {kind}; attributes are values and lists of values"
    if not any(map(_has_items, values)):
        return "its lists are always empty, so that the type of their items is not known"
    return ""

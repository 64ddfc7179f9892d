"""Which attributes have a role in the draft: the key of the windows, the time, and the number that is averaged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from sluice.draft.name_words import (
    ASIDE,
    BESIDE_VALUES,
    CREATIONS,
    EVENT_TIMES,
    METRICS,
    MIN_RECORDS,
    OTHER_TIMES,
    VALUES,
    measures,
    names_thing,
    words,
)
from sluice.draft.record_tree import Path, Place, places
from sluice.draft.sampled_attributes import CHANGE, KEY, Attribute, attributes_of
from sluice.draft.value_forms import Form
from sluice.model.members import UNITS
from sluice.time_units import SECOND, nanoseconds

#: percent of the records that have a key
MIN_KEYED = 98
#: a text that may be the name of one thing of many, such as MTR-104 or web-4
IDENTIFIER = re.compile(r"(?=\S*[^\W\d])(?=\S*\d)\S+")
#: the name by which OpenTelemetry groups all that a service sends
SERVICES = ("service.name",)
#: records of a group that a window over it needs to say something
MIN_GROUP = 4
#: seconds by which the times of events may be out of order
MOST_DISORDER = 3 * 3600
#: types of a key
KEYS = ("string", "int64")
#: names of an attribute that holds the key of the record; the first that no other attribute has is taken
KEY_NAMES = ("key", "record_key", "kafka_key")


#: a topic partition, and a time in seconds
Origins = Sequence[tuple[int, float | None]]


def best_time(attributes: Sequence[Attribute], origins: Origins) -> Attribute | None:
    """The attribute that is most likely the event time: one that all records have, then that of a change event, then
    one whose times are not out of order by hours, then one by its name, then one of what is and not of what was, then
    one that is no creation, then one without a pattern, then one that is finer than seconds, then the first one. None
    if there is no time.
    """
    times = [attribute for attribute in attributes if attribute.is_time]
    return min(times, key=partial(_time_rank, origins=origins), default=None)


def seconds(time: Attribute) -> Iterator[float]:
    """The times since 1970."""
    assert time.form is not None  # noqa: S101 - it is a time
    form = Form("timestamp", unit="ms") if time.part == CHANGE else time.form
    yield from (_seconds(form, value) for value in time.values)


def _seconds(form: Form, value: Any) -> float:  # noqa: ANN401 - a JSON value
    if form.unit:
        return float(value) / (SECOND / UNITS[form.unit])
    if form.pattern:
        time = datetime.strptime(value, form.pattern)  # noqa: DTZ007 - the next line has the zone
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return nanoseconds(value) / 1e9 if isinstance(value, str) else float(value)


def disorder_of(times: Sequence[float], origins: Origins) -> float:
    """The most seconds by which a time is before an earlier one of its topic partition; `origins`: see Sample."""
    newest: dict[int, float] = {}
    most = 0.0
    for time, (partition, _) in zip(times, origins, strict=True):
        newest[partition] = max(time, newest.get(partition, time))
        most = max(most, newest[partition] - time)
    return most


def _is_aside(attribute: Attribute) -> bool:
    return not ASIDE.isdisjoint(attribute.path)


def _time_rank(
    attribute: Attribute, origins: Origins
) -> tuple[bool, bool, bool, bool, int, bool, int, bool, bool, bool]:
    assert attribute.form is not None  # noqa: S101 - it is a time
    named = "".join(words(attribute.last_name))
    constant = len(attribute.values) > 1 and len(set(attribute.values)) == 1
    other = not OTHER_TIMES.isdisjoint(words(attribute.last_name))
    by_name = 3 if attribute.is_date else 0 if named in EVENT_TIMES else 1 + other
    moments = list(seconds(attribute))
    disordered = len(moments) == len(origins) and disorder_of(moments, origins) > MOST_DISORDER
    coarse = attribute.form.unit == "s" and not any(moment % 1 for moment in moments)
    return (
        attribute.optional, constant, attribute.part != CHANGE, disordered, by_name, _is_aside(attribute),
        len(attribute.path), named in CREATIONS, bool(attribute.form.pattern), coarse,
    )  # fmt: skip


def best_measurement(attributes: Sequence[Attribute], key: Sequence[str]) -> Attribute | None:
    """The attribute whose average is drafted: one that has values, then one that is not always the same, then one
    without words among its numbers, then one with the name of a measurement, then one of what is and not of what was,
    then one that all records have, then one that may have places behind the point, then the first one. None if no
    attribute measures something.
    """
    possible = [attribute for attribute in attributes if attribute.is_measurement and attribute.name not in key]
    return min(possible, key=_measurement_rank, default=None)


def _measurement_rank(attribute: Attribute) -> tuple[bool, bool, bool, bool, bool, bool, bool]:
    assert attribute.form is not None  # noqa: S101 - it is a measurement
    named = measures(attribute.meaning)
    whole = attribute.form.type == "int64"
    return (
        not attribute.values, is_constant(attribute), attribute.form.words, not named, _is_aside(attribute),
        attribute.optional, whole,
    )  # fmt: skip


def is_constant(attribute: Attribute) -> bool:
    """Whether the values are always the same, in enough records."""
    return len(attribute.values) >= MIN_RECORDS and len(set(map(str, attribute.values))) == 1


class RecordKey(NamedTuple):
    """The key of the records.

    attributes  the attributes that are the key; empty if there are none
    in_value    whether all of them are in the value as well
    json        whether the keys are JSON objects
    named       whether the members of these objects have the names of the attributes
    format      the format of keys that are objects
    paths       where the keys have the attributes
    """

    attributes: Sequence[Attribute] = ()
    in_value: bool = False
    json: bool = False
    named: bool = True
    format: str = "json"
    paths: Sequence[Path] = ()


NO_KEY = RecordKey()


def record_key(attributes: Sequence[Attribute], keys: Sequence[Any]) -> RecordKey:
    """The key of the records. `keys` has the key of each record: a text or a JSON object; None if there is none, or if
    it is no text.

    Either attributes of the value are equal to the key, or at least MIN_KEYED percent of the records have one.
    """
    parts = places(keys)
    if not any(part.values for part in parts):
        return NO_KEY
    equal = [equal_attribute(attributes, part) for part in parts]
    in_value = all(equal)
    if not in_value and 100 * min(len(part.values) for part in parts) < MIN_KEYED * len(keys):
        return NO_KEY
    key_attributes = [attribute for attribute in equal if attribute] if in_value else _key_attributes(attributes, parts)
    paths = [part.path for part in parts]
    named = paths == [()] or paths == [(attribute.name,) for attribute in key_attributes]
    return RecordKey(key_attributes, in_value, paths != [()], named, paths=paths)


def equal_attribute(attributes: Sequence[Attribute], part: Place) -> Attribute | None:
    """The attribute that is equal to this part of the key in MIN_KEYED percent of the records that have both."""
    for attribute in attributes:
        if attribute.problem or attribute.form is None or attribute.form.type not in KEYS:
            continue
        keyed = dict(zip(part.rows, part.values, strict=True))
        pairs = [(keyed[row], value) for row, value in attribute.numbered if row in keyed]
        equal = sum(str(key) == str(value) for key, value in pairs)
        if pairs and 100 * equal >= MIN_KEYED * len(keyed):
            return attribute
    return None


def _key_attributes(attributes: Sequence[Attribute], parts: Sequence[Place]) -> list[Attribute]:
    taken = {attribute.name for attribute in attributes}
    listed = attributes_of(parts, KEY)
    if len(parts) == 1 and not parts[0].path:
        names = [next((name for name in KEY_NAMES if name not in taken), "")]
    else:
        names = [_free(attribute.name, taken) for attribute in listed]
    return [replace(attribute, name=name) for attribute, name in zip(listed, names, strict=True) if name]


def _free(name: str, taken: set[str]) -> str:
    return f"key_{name}" if name in taken else name


def may_be_key(attribute: Attribute) -> bool:
    """Whether windows may be partitioned by the attribute: it has no inside, and is no float64."""
    form = attribute.form
    return form is not None and (form.type in (*KEYS, "boolean", "timestamp") or form.is_exact)


def repeats(attribute: Attribute) -> bool:
    """Whether the values of the attribute group the records: several values, most of them in several records."""
    return 1 < len(set(attribute.values)) <= len(attribute.values) // 2


def group_of(attributes: Sequence[Attribute]) -> Attribute | None:
    """The attribute by which the records may be grouped, if they have no key: a thing that has many records, such as a
    sensor, else the text with the fewest values among those that repeat, else a number that names something. None if
    none is suitable.
    """
    possible = [attribute for attribute in attributes if _may_group(attribute) and repeats(attribute)]
    texts = [attribute for attribute in possible if attribute.form and attribute.form.type == "string"]
    return min(texts or [], key=_group_rank, default=None) or min(
        (attribute for attribute in possible if names_thing(attribute.meaning)), key=_group_rank, default=None
    )


def metric_of(attributes: Sequence[Attribute]) -> Attribute | None:
    """The attribute that says what a record measures, if the records measure several things: the name of a metric, or
    a name beside a value. None if there is none.
    """
    best = best_measurement(attributes, [])
    names = METRICS | (BESIDE_VALUES if best is not None and best.last_name.lower() in VALUES else frozenset())
    texts = (attribute for attribute in attributes if attribute.form and attribute.form.type == "string")
    named = (attribute for attribute in texts if "".join(words(attribute.last_name)) in names)
    return next((attribute for attribute in named if _may_group(attribute) and repeats(attribute)), None)


def with_metric(group: Sequence[Attribute], metric: Attribute | None) -> Sequence[Attribute]:
    """The attributes of a group, and the metric if records of one group measure several things."""
    if metric is None or metric in group:
        return group
    of_group = [dict(attribute.numbered) for attribute in group]
    pairs = {(str([values.get(row) for values in of_group]), name) for row, name in metric.numbered}
    return [*group, metric] if len({group_text for group_text, _ in pairs}) < len(pairs) else group


def _may_group(attribute: Attribute) -> bool:
    present = 100 * len(attribute.values) >= MIN_KEYED * attribute.documents
    return present and not attribute.problem and attribute.form is not None and attribute.form.type in KEYS


def _group_rank(attribute: Attribute) -> tuple[bool, bool, bool, bool, bool, int]:
    groups = len(set(attribute.values))
    small = groups * MIN_GROUP > len(attribute.values)
    name = all(isinstance(value, int) or IDENTIFIER.fullmatch(value) for value in attribute.values)
    service = attribute.last_name in SERVICES
    return small, not service, not names_thing(attribute.meaning), _is_aside(attribute), not name, groups

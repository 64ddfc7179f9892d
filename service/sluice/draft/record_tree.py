"""The places of JSON documents: the paths at which values stand, each with its values in all documents.

Members of objects are places of their own, at any depth, and so are the items of lists that have the same few items in
each document. A list of any length is one value, and so is an object whose member names are data, such as the prices of
all symbols.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from sluice.draft.name_words import unit_of_time
from sluice.model.members import MAX_STEPS

#: the names of members and positions of items that lead to a value; empty: the document itself
Path = tuple[str | int, ...]
#: members that name an object of a list, and members that then have its value
NAMES, VALUES = ("name", "key", "label", "tag"), ("value", "values")
#: the members of Debezium's number without a fixed scale
SCALED = {"scale", "value"}

#: percent of the values that are objects where the others are no more than mistakes
MIN_SHARE = 99
#: an object with at least MIN_NAMES names of members, of which a value has less than MAX_USE percent, has data as names
MIN_NAMES, MAX_USE = 12, 25
#: the fewest lists whose items are known by their names
MIN_LISTS = 8
#: the most steps of a path; a source may begin with the members of an envelope, or with `key`
LONGEST = MAX_STEPS - 2
#: the longest list whose items differ in kind that is read item by item
MAX_ITEMS = 12


class Item(int):
    """The position of an item of a list. `label`: its name in all documents, if it is an object of a name and a
    value; else empty.
    """

    label: str

    def __new__(cls, position: int, label: str = "") -> Self:
        item = super().__new__(cls, position)
        item.label = label
        return item


@dataclass(frozen=True, slots=True)
class Place:
    """A path at which documents have values.

    values    the values, without null, in the order of the documents
    rows      the numbers of the documents with these values, counted from 0
    documents the number of all documents
    """

    path: Path
    values: Sequence[Any]
    rows: Sequence[int]
    documents: int


def places(documents: Sequence[Any]) -> list[Place]:
    """The places, in the order in which the documents have them. A place that is null everywhere has no values."""
    return list(_below((), list(enumerate(documents)), len(documents)))


def kind(value: object) -> str:
    """The kind of a JSON value: boolean, number, text, list or object."""
    kinds = {bool: "boolean", int: "number", float: "number", str: "text", list: "list", dict: "object"}
    return kinds[type(value)]


def _below(path: Path, pairs: Sequence[tuple[int, Any]], documents: int) -> Iterator[Place]:
    numbered = [(row, value) for row, value in pairs if value is not None]
    values = [value for _, value in numbered]
    steps = _steps(path, values) if len(path) < LONGEST else ()
    if not steps:
        yield Place(path, values, [row for row, _ in numbered], documents)
    for step in steps:
        inside = [(row, _at(value, step)) for row, value in numbered if _has(value, step)]
        yield from _below((*path, step), inside, documents)


def _steps(path: Path, values: Sequence[Any]) -> Iterable[str | int]:
    """The steps that lead from the values to places within them; none if the values are a place themselves."""
    objects = [value for value in values if isinstance(value, dict)]
    if objects and all(map(is_scaled, objects)):
        return ()
    if values and 100 * len(objects) >= MIN_SHARE * len(values):
        names = Counter(name for value in objects for name in value)
        if path and isinstance(path[-1], Item) and path[-1].label:
            names.pop(next(name for name in NAMES if objects[0].get(name) == path[-1].label))
        return () if path and _are_data(names, objects) else names
    lists = [value for value in values if isinstance(value, list)]
    if not lists or len(lists) < len(values):
        return ()
    labels = _labels(lists)
    return [Item(at, label) for at, label in enumerate(labels)] or [Item(at) for at in range(_items(lists))]


def is_scaled(value: object) -> bool:
    """Whether a value is Debezium's number without a fixed scale: its scale and the bytes of the unscaled number."""
    return isinstance(value, dict) and value.keys() == SCALED and _are_of(value, int, str)


def _are_of(value: dict[str, Any], scale: type, content: type) -> bool:
    return type(value["scale"]) is scale and type(value["value"]) is content


def _labels(lists: Sequence[list[Any]]) -> list[str]:
    """The names of the items, if each list has the same few named values in the same order, as the labels of a metric;
    else none.
    """
    rows = [tuple(map(_label, value)) for value in lists]
    labels = rows[0]
    equal = all(row == labels for row in rows) and len(lists) >= MIN_LISTS
    return [*labels] if equal and len(labels) <= MAX_ITEMS and all(labels) and len(set(labels)) == len(labels) else []


def _label(item: object) -> str:
    """The name of an object of a name and a value; empty if it is none."""
    if not isinstance(item, dict) or item.keys().isdisjoint(VALUES):
        return ""
    return next((name for key in NAMES if isinstance(name := item.get(key), str)), "")


def _are_data(names: Counter[str], objects: Sequence[dict[str, Any]]) -> bool:
    """Whether the names of the members are data, and all members of one kind."""
    used = 100 * names.total() < MAX_USE * len(names) * len(objects)
    kinds = {kind(member) for value in objects for member in value.values() if member is not None}
    return used and len(names) >= MIN_NAMES and len(kinds) == 1


def _items(lists: Sequence[list[Any]]) -> int:
    """The number of items that are places of their own; 0 if the lists are values."""
    kinds = {kind(item) for value in lists for item in value if item is not None}
    lengths = {len(value) for value in lists}
    if kinds == {"object"}:
        return int(max(lengths) == 1)
    one_number = kinds == {"number"} and lengths == {1}
    several = len(kinds) > 1 or (kinds == {"number"} and len(lengths) == 1 and _have_time(lists))
    return max(lengths) if one_number or (several and len(lengths) == 1 and max(lengths) <= MAX_ITEMS) else 0


def _have_time(lists: Sequence[list[Any]]) -> bool:
    """Whether the numbers at one position of the lists are times, so that each position has a meaning of its own."""
    columns = zip(*lists, strict=True) if len(lists) >= MIN_LISTS else ()
    return any(None not in column and unit_of_time("", column) for column in columns)


def _has(value: object, step: str | int) -> bool:
    if isinstance(step, int):
        return isinstance(value, list) and step < len(value)
    return isinstance(value, dict) and step in value


def _at(value: Any, step: str | int) -> Any:  # noqa: ANN401 - a JSON value
    return value[step]

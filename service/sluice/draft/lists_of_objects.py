"""Lists of objects: a tuple for each object of a list, also of lists in lists, if the records measure something only
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from sluice.draft.name_words import names_thing
from sluice.draft.record_tree import Path, places
from sluice.draft.roles import best_measurement, group_of, is_constant
from sluice.draft.sampled_attributes import Attribute, attributes_of, path_text
from sluice.draft.user_choices import Roles
from sluice.draft.value_forms import Form
from sluice.model.types import Type, parse_type

#: the name of an object of the list in expressions, and the one if an attribute has that name
ELEMENTS = ("item", "element")
#: the most lists in one another
MAX_LEVELS = 6
#: a member that says what an object measures
NAMES = ("name", "metric", "metricname", "metric_name", "key", "tag", "label")


@dataclass(frozen=True, slots=True)
class Level:
    """A list: a tuple for each of its objects.

    attribute    the name of the list
    element      the name of an object in expressions
    expressions  attribute of such a tuple -> its expression
    operator     the name of the map, and of the stream that it writes
    """

    attribute: str
    element: str
    expressions: Mapping[str, str]
    operator: str


@dataclass(frozen=True, slots=True)
class Unnested:
    """The tuples of the objects of a list.

    levels  the lists, from the outermost one to the one with the objects
    roles   the roles of the attributes of such a tuple
    """

    levels: Sequence[Level]
    roles: Roles

    @property
    def name(self) -> str:
        """The name of the objects."""
        return self.levels[-1].operator.removeprefix("each_")


def unnested(roles: Roles) -> Unnested | None:
    """The objects of the first list that measure something, if nothing else of the records does, or only what is always
    the same; else None.
    """
    if roles.measurement is not None and not is_constant(roles.measurement):
        return None
    kept = [*roles.key, *([roles.time] if roles.time else [])]
    lists = (attribute for attribute in roles.sample.usable_attributes if attribute.is_list_of_objects)
    return next(filter(None, (_below(roles, kept, attribute, ()) for attribute in lists)), None)


def _below(roles: Roles, kept: Sequence[Attribute], objects: Attribute, levels: tuple[Level, ...]) -> Unnested | None:
    """The objects of a list, or of the first list in them that measures something. `kept` are the attributes around
    the list that its objects get, too.
    """
    taken = {attribute.name for attribute in (*roles.sample.attributes, *kept)}
    element = next(name for name in ELEMENTS if name not in taken)
    inner = _named(_inner(objects, element), {objects.name, *(attribute.name for attribute in kept)}, element)
    scalars = [attribute for _, attribute in inner if not attribute.is_list_of_objects]
    attributes = [*(_repeated(attribute, objects) for attribute in kept), *scalars]
    if best_measurement(scalars, []) is not None:
        level = _level(objects, element, kept, [pair for pair in inner if pair[1] in scalars], levels)
        return _measured(roles, attributes, (*levels, level))
    for pair in inner if len(levels) < MAX_LEVELS else ():
        if pair[1].is_list_of_objects:
            level = _level(
                objects, element, kept, [member for member in inner if member[1] in scalars or member is pair], levels
            )
            if deeper := _below(roles, attributes, pair[1], (*levels, level)):
                return deeper
    return None


def _level(
    objects: Attribute, element: str, kept: Sequence[Attribute], inner: Sequence[tuple[str, Attribute]],
    levels: Sequence[Level],
) -> Level:  # fmt: skip
    expressions = {attribute.name: attribute.name for attribute in kept}
    expressions |= {attribute.name: expression for expression, attribute in inner}
    operators = {level.operator for level in levels}
    plain = re.sub(r"\W+", "", objects.name, flags=re.ASCII) or "objects"
    numbered = (f"each_{plain}{number}" for number in ("", *range(2, MAX_LEVELS + 2)))
    return Level(objects.name, element, expressions, next(name for name in numbered if name not in operators))


def _measured(roles: Roles, attributes: Sequence[Attribute], levels: Sequence[Level]) -> Unnested | None:
    group = _group(attributes, [attribute.name for attribute in roles.key])
    best = best_measurement(attributes, [attribute.name for attribute in group])
    if best is None:
        return None
    usable = max(len(attribute.rows) for attribute in attributes)
    inside = replace(roles.sample, attributes=attributes, group=group, usable=usable)
    return Unnested(levels, Roles(inside, group, None, best, roles.missing))


def _named(
    inner: Sequence[tuple[str, Attribute]], taken: set[str], element: str
) -> list[tuple[str, Attribute]]:  # fmt: skip
    """The members of the objects with names that are not taken."""
    named = []
    for expression, attribute in inner:
        possible = (attribute.name, *(f"{element}{number}_{attribute.name}" for number in ("", *range(2, 9))))
        name = next(name for name in possible if name not in taken)
        named.append((expression, replace(attribute, name=name)))
        taken.add(name)
    return named


def _group(attributes: Sequence[Attribute], key: Sequence[str]) -> Sequence[Attribute]:
    """The attributes by which the objects are grouped. Objects with a name are measurements of different things: each
    name is a group, of each key of the records, or of each thing around the objects.
    """
    keys = [attribute for attribute in attributes if attribute.name in key]
    names = (
        attribute
        for attribute in reversed(attributes)
        if attribute.last_name.lower() in NAMES and not attribute.optional
    )
    name = next((attribute for attribute in names if attribute not in keys and len(set(attribute.values)) > 1), None)
    others = [
        attribute
        for attribute in attributes
        if attribute is not name and (name is None or names_thing(attribute.meaning))
    ]
    best = group_of(others)
    if name is None:
        return keys if best is None else [best]
    return [*(keys or ([best] if best else [])), name]


def _inner(attribute: Attribute, element: str) -> list[tuple[str, Attribute]]:
    """The members of the objects as attributes, with their expressions, as far as the type of the list has them."""
    assert attribute.form is not None  # noqa: S101 - it is a list of objects
    struct = parse_type(attribute.form.type).parts[0]
    return list(_members(struct, list(chain.from_iterable(attribute.values)), element))


def _members(struct: Type, objects: Sequence[object], element: str) -> Iterator[tuple[str, Attribute]]:
    for attribute in attributes_of(places(objects)):
        type_ = _member(struct, attribute.path)
        if type_ is not None and not attribute.problem and not attribute.unfit:
            yield path_text((element, *attribute.path)), replace(attribute, form=Form(str(type_.present)))


def _member(struct: Type, path: Path) -> Type | None:
    """The type of the member at a path; None if there is none, or if it has an inside and is no list of objects."""
    type_: Type | None = struct
    for step in path:
        if type_ is None:
            return None
        present = type_.present
        type_ = present.element if isinstance(step, int) else dict(getattr(present, "members", ())).get(step)
    if type_ is None or not type_.present.parts:
        return type_
    return type_ if str(type_.present).startswith("list<tuple<") else None


def _repeated(attribute: Attribute, objects: Attribute) -> Attribute:
    """An attribute of the records as one of the tuples of the objects."""
    values = dict(attribute.numbered)
    rows = [row for row, value in objects.numbered for _ in value]
    kept = [(number, values[row]) for number, row in enumerate(rows) if row in values]
    numbers: Sequence[int] = [number for number, _ in kept]
    return replace(attribute, values=[value for _, value in kept], rows=numbers, documents=len(rows))

"""Lists of objects: a tuple for each object of a list, if the records measure something only there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from sluice.draft.choices import Roles
from sluice.draft.record_tree import Path, places
from sluice.draft.roles import best_measurement, group_of
from sluice.draft.sampled_attributes import Attribute, attributes_of
from sluice.draft.value_forms import Form
from sluice.model.types import Type, parse_type

#: the name of an object of the list in expressions, and the one if an attribute has that name
ELEMENTS = ("item", "element")

#: a member that says what an object measures
NAMES = ("name", "metric", "metricname", "metric_name", "key", "tag", "label")


@dataclass(frozen=True, slots=True)
class Unnested:
    """The tuples of the objects of a list.

    attribute    the list
    element      the name of an object in expressions
    expressions  attribute of such a tuple -> its expression
    roles        the roles of the attributes of such a tuple
    """

    attribute: Attribute
    element: str
    expressions: Mapping[str, str]
    roles: Roles

    @property
    def operator(self) -> str:
        return f"each_{self.attribute.name}"


def unnested(roles: Roles) -> Unnested | None:
    """The objects of the first list that measure something, if nothing else of the records does; else None."""
    if roles.measurement is not None:
        return None
    lists = (attribute for attribute in roles.sample.usable_attributes if attribute.is_list_of_objects)
    return next(filter(None, (_of_list(roles, attribute) for attribute in lists)), None)


def _of_list(roles: Roles, attribute: Attribute) -> Unnested | None:
    element = next(name for name in ELEMENTS if all(one.name != name for one in roles.sample.attributes))
    inner = dict(_inner(attribute, element))
    measurement = best_measurement(list(inner.values()), [])
    if measurement is None:
        return None
    outer = {one.name: _repeated(one, attribute) for one in roles.sample.usable_attributes if one is not attribute}
    kept = [*roles.key, *([roles.time] if roles.time else [])]
    taken = {one.name for one in kept} | {attribute.name}
    named = {
        (f"{element}_{one.name}" if one.name in taken else one.name): (expression, one)
        for expression, one in inner.items()
    }
    listed = [outer[one.name] for one in kept]
    listed += [replace(one, name=name) for name, (_, one) in named.items()]
    group = _group(listed, [outer[one.name] for one in roles.key])
    expressions = {one.name: one.name for one in kept} | {name: text for name, (text, _) in named.items()}
    best = best_measurement(listed, [one.name for one in group])
    if best is None:
        return None
    inside = replace(roles.sample, attributes=listed, group=group, usable=len(measurement.values))
    return Unnested(attribute, element, expressions, Roles(inside, group, None, best, roles.missing))


def _group(attributes: Sequence[Attribute], key: Sequence[Attribute]) -> Sequence[Attribute]:
    """The attributes by which the objects are grouped. Objects with a name are measurements of different things: each
    name is a group, of each key of the records.
    """
    named = (one for one in attributes if one.last_name.lower() in NAMES and not one.optional and one not in key)
    if (name := next(named, None)) is not None:
        return [*key, name]
    thing = group_of(attributes)
    return key if thing is None else [thing]


def _inner(attribute: Attribute, element: str) -> Iterator[tuple[str, Attribute]]:
    """The members of the objects as attributes, by their expressions, as far as the type of the list has them."""
    assert attribute.form is not None  # noqa: S101 - it is a list of objects
    struct = parse_type(attribute.form.type).parts[0]
    objects = list(chain.from_iterable(attribute.values))
    for one in attributes_of(places(objects)):
        type_ = _member(struct, one.path)
        if type_ is not None and not one.problem and not one.unfit:
            yield ".".join((element, *map(str, one.path))), replace(one, form=Form(str(type_.present)))


def _member(struct: Type, path: Path) -> Type | None:
    """The type of the member at a path; None if there is none, or if it has an inside."""
    type_: Type | None = struct
    for step in path:
        members = dict(getattr(type_.present, "members", ())) if type_ is not None else {}
        type_ = members.get(step)
    return None if type_ is None or type_.present.parts else type_


def _repeated(attribute: Attribute, objects: Attribute) -> Attribute:
    """An attribute of the records as one of the tuples of the objects."""
    values = dict(attribute.numbered)
    rows = [row for row, value in objects.numbered for _ in value]
    kept = [(number, values[row]) for number, row in enumerate(rows) if row in values]
    numbers: Sequence[int] = [number for number, _ in kept]
    return replace(attribute, values=[value for _, value in kept], rows=numbers, documents=len(rows))

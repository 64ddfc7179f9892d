"""The attributes of an output that are in objects of its records, as operators that read the stream see them (ST14).

Such an attribute has its path as its name, `customer.id`. In expressions the object is a struct.
"""

from __future__ import annotations

from collections.abc import Mapping

from sluice.config.syntax.member_path import PathError, member_path
from sluice.model.expressions import Attribute, Call, Expression, Literal
from sluice.model.members import NAME, Steps
from sluice.model.types import STRING, StructType, Type


def of_side(attributes: Mapping[str, Type], name: str, side: str | None = None) -> Expression | None:
    """The attribute, or the struct of the attributes in an object of this name; None if there is neither."""
    kind = attributes.get(name)
    return of_objects(attributes, name, side) if kind is None else Attribute(name, kind, side)


def of_objects(attributes: Mapping[str, Type], name: str, side: str | None = None) -> Expression | None:
    """The attributes in an object of an output as a struct: an operator reads what a record of it has (ST14)."""
    paths = {
        _path(attribute): Attribute(attribute, kind, side)
        for attribute, kind in attributes.items()
        if not NAME.fullmatch(attribute)
    }
    inside = {path[1:]: value for path, value in paths.items() if path[:1] == (name,) and path[1:]}
    return _struct(inside) if inside else None


def _path(name: str) -> Steps:
    """The path of an attribute whose name is one; () for another name."""
    try:
        return member_path(name)
    except PathError:
        return ()


def _struct(inside: Mapping[Steps, Expression]) -> Call:
    """The struct whose members have these paths."""
    heads = dict.fromkeys(path[0] for path in inside)
    values = {str(head): _value({p[1:]: value for p, value in inside.items() if p[0] == head}) for head in heads}
    arguments = [part for name, value in values.items() for part in (Literal(name, STRING), value)]
    return Call("{}", tuple(arguments), StructType(tuple((name, value.type) for name, value in values.items())))


def _value(inside: Mapping[Steps, Expression]) -> Expression:
    return inside[()] if () in inside else _struct(inside)


def of_attributes(value: Call) -> bool:
    """Whether the value is a struct of attributes, which have no error that a member alone would not have (ST10)."""
    return value.function == "{}" and all(
        isinstance(part, Attribute) or (isinstance(part, Call) and of_attributes(part))
        for part in value.arguments[1::2]
    )

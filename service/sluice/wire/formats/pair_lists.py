"""Maps that a record has as a list of keys and values (PA17), for formats whose values have types of their own.

Such a format reads the list, as a list of structs that have the members on the paths of the key and of the value. The
lists then become maps (wire/maps_of_pairs.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sluice.model.members import Pairs, Steps, text_of
from sluice.model.types import MapType, StructType, Type, list_of, optional_of
from sluice.wire.formats.format_contract import Codec, Part


class PairsError(ValueError):
    """The paths of the key and the values of an attribute are not those of a struct."""

    def __init__(self, attribute: str, path: Steps) -> None:
        super().__init__(f"paths of names that do not lead through each other, not {text_of(path)}")
        self.attribute = attribute


def pairs_of(part: Part) -> Mapping[str, Pairs]:
    """By attribute: where a list has the keys and values of its map."""
    maps = {name for name, type_ in part.schema if isinstance(type_.present, MapType)}
    of_members = {name: member.spelling.pairs for name, member in part.members.items() if name in maps}
    return {name: pairs for name, pairs in of_members.items() if pairs is not None}


def as_lists(part: Part) -> Part:
    """The part with lists in place of these maps. A list is optional if the map is, or if it has a default. Raises
    PairsError.
    """
    pairs = pairs_of(part)
    schema = tuple(
        (name, _list(name, type_, pairs[name], optional=name in part.defaults) if name in pairs else type_)
        for name, type_ in part.schema
    )
    defaults = {name: value for name, value in part.defaults.items() if name not in pairs}
    members = {
        name: replace(member, spelling=replace(member.spelling, pairs=None)) if name in pairs else member
        for name, member in part.members.items()
    }
    return replace(part, schema=schema, defaults=defaults, members=members) if pairs else part


def with_maps(codec: Codec, part: Part) -> Codec:
    """The codec of the part, given that of `as_lists`."""
    pairs = pairs_of(part)
    if not pairs:
        return codec
    from sluice.wire.maps_of_pairs import MapsOfPairs  # noqa: PLC0415 - it imports array libraries

    maps = MapsOfPairs(part.schema, pairs, part.defaults, {name: str(type_) for name, type_ in as_lists(part).schema})
    return codec._replace(decode=lambda values: maps.of(codec.decode(values)))


def _list(name: str, type_: Type, pairs: Pairs, *, optional: bool) -> Type:
    key, value = type_.present.parts
    tree: dict[str, Any] = {}
    for path, part in ((pairs.key, key), *((path, optional_of(value)) for path in pairs.value)):
        if not _put(tree, path, part):
            raise PairsError(name, path)
    pairs_type = list_of(_struct(tree))
    return optional_of(pairs_type) if optional or type_.optional else pairs_type


def _put(tree: dict[str, Any], path: Steps, type_: Type) -> bool:
    """Adds the type at this path. False if the path is empty, has an index, or leads through another one."""
    if not path or any(isinstance(step, int) for step in path):
        return False
    *way, last = map(str, path)
    for step in way:
        tree = tree.setdefault(step, {})
        if not isinstance(tree, dict):
            return False
    return tree.setdefault(last, type_) is type_


def _struct(tree: Mapping[str, Any]) -> StructType:
    """The struct with these members. One whose members are all optional may be absent."""
    members = []
    for name, inner in tree.items():
        type_ = _struct(inner) if isinstance(inner, dict) else inner
        absent = isinstance(type_, StructType) and all(part.optional for part in type_.parts)
        members.append((name, optional_of(type_) if absent else type_))
    return StructType(tuple(members))

"""Checks inputs that are lists of streams, and makes a union of each list (R1 to R5)."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.config.checks.event_time_checks import inherited
from sluice.config.checks.stream_checks import Streams
from sluice.config.syntax.file_models.operator_models import (
    BarrierShape,
    JoinShape,
    PairShape,
    input_key,
    inputs_of,
    union_of,
)
from sluice.model.errors import Path
from sluice.model.expressions import Attribute
from sluice.model.spec import Output, Stream, Union
from sluice.model.types import Schema, Type, united


class Unions:
    """The unions of a file. Operators that name the same list of streams share one."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self.found: dict[str, Union] = {}

    def resolve(self, index: int) -> Union | None:
        """The union that an operator reads, if it is the first operator that reads it. Sets the attributes of its
        stream.

        The attributes of the streams that the union reads are known by now.
        """
        shape = self._streams.operators[index]
        if isinstance(shape, JoinShape | BarrierShape | PairShape):
            return None
        word, names = input_key(shape), [name for _, name in inputs_of(shape)]
        name = union_of(names)
        if len(names) == 1 or name in self.found:
            return None
        schema = self.united(self._streams.path(index, word), names)
        if schema is None:
            return None
        self._streams.schemas[name] = schema
        event_time = inherited(
            [(self._streams.event_times.get(source), self._streams.schemas[source]) for source in names], schema
        )
        if event_time is not None:
            self._streams.event_times[name] = event_time
        unchanged = tuple((attribute, Attribute(attribute, kind)) for attribute, kind in schema)
        self.found[name] = Union(name, tuple(names), (Output(name, unchanged),))
        return self.found[name]

    def united(self, path: Path, names: Sequence[str]) -> Schema | None:
        """The attributes of these streams together (R1); None if the attributes of one stream are unknown."""
        self.check_distinct(path, names)
        schemas = [self._streams.schemas.get(name) for name in names]
        valid_schemas = [schema for schema in schemas if schema is not None]
        if len(valid_schemas) < len(names):
            return None
        self._check_attributes(path, names, valid_schemas)
        return united_schema(valid_schemas)

    def stream(self, name: str) -> Stream:
        """The stream of a union: it exists only inside the service."""
        return Stream(name, self._streams.schemas[name], event_time=self._streams.event_times.get(name))

    def check_distinct(self, path: Path, names: Sequence[str]) -> None:
        for number, name in enumerate(names):
            if name in names[:number]:
                self._streams.report.problem((*path, number), "each stream only once", name)

    def _check_attributes(self, path: Path, names: Sequence[str], schemas: Sequence[Schema]) -> None:
        """Checks that all streams have the attributes of the first one, with the same types but for their `?` (R1)."""
        first, types_of_first = names[0], dict(schemas[0])
        for number, (name, schema) in enumerate(zip(names[1:], schemas[1:], strict=True), 1):
            by_name = dict(schema)
            for attribute in [*types_of_first, *(extra for extra in by_name if extra not in types_of_first)]:
                if _together(by_name.get(attribute), types_of_first.get(attribute)) is None:
                    actual, wanted = (_typed(attribute, types.get(attribute)) for types in (by_name, types_of_first))
                    expected = f"a stream with the attributes of {first}, which has {wanted}; {name} has {actual}"
                    self._streams.report.problem((*path, number), expected, name)
                    break


def united_schema(schemas: Sequence[Schema]) -> Schema:
    """The attributes of the first schema: one is optional if it is in one of the schemas (R1, NU33)."""
    first, *others = schemas
    for other in map(dict, others):
        first = tuple((name, _together(kind, other.get(name)) or kind) for name, kind in first)
    return first


def _together(first: Type | None, second: Type | None) -> Type | None:
    return None if first is None or second is None else united(first, second)


def _typed(attribute: str, kind: object) -> str:
    return f"no {attribute}" if kind is None else f"the {kind} {attribute}"

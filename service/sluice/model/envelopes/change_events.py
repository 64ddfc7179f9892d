"""Change events: what surrounds a row in the value of a record (docs/reference/change-events.md).

envelope   the word in the pipeline file
operation  what has happened to the row
member     a value beside the row that a record has, such as the time of the change in the database
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from sluice.model.types import INT64, STRING, TIMESTAMP, Type


class Operation(IntEnum):
    """The operation of a record on a row.

    TOMBSTONE   a record without a value
    NO_ROW      a message of Debezium that is about no row: heartbeats, transactions, changes of a schema, messages that
                an application wrote into the log of the database
    """

    CREATE = 0
    READ = 1
    UPDATE = 2
    DELETE = 3
    TRUNCATE = 4
    TOMBSTONE = 5
    NO_ROW = 6


#: the letter of each operation in the member `op`
LETTERS: Mapping[str, Operation] = {
    "c": Operation.CREATE, "r": Operation.READ, "u": Operation.UPDATE, "d": Operation.DELETE,
    "t": Operation.TRUNCATE, "m": Operation.NO_ROW,
}  # fmt: skip
#: how metrics name the operations
NAMES: Mapping[Operation, str] = {operation: operation.name.lower() for operation in Operation}
#: the operations after which the row exists
EXISTS = (Operation.CREATE, Operation.READ, Operation.UPDATE)

DEBEZIUM, UPSERT = "debezium", "upsert"
#: the end of the name of a time, as in `source.ts_ms` -> nanoseconds in one unit of it
TIMES: Mapping[str, int] = {"ts_ms": 1_000_000, "ts_us": 1000, "ts_ns": 1}
OP, SOURCE = "op", "source."


@dataclass(frozen=True, slots=True)
class Envelope:
    """The envelope of a stream.

    deletes   whether a stream that is no table has a tuple for the deletion of a row
    members   (attribute, member) for each attribute that is no part of the row
    """

    word: str
    deletes: bool = False
    members: tuple[tuple[str, str], ...] = ()


def unit_of(member: str) -> int | None:
    """Nanoseconds in one unit of the member if it is a time, else None."""
    return TIMES.get(member.removeprefix(SOURCE))


def types_of(member: str) -> tuple[Type, ...]:
    """The types that an attribute with this member may have."""
    if member == OP:
        return (STRING,)
    return (TIMESTAMP, INT64) if unit_of(member) is not None else (STRING, INT64)


def row_schema(event: str) -> str | None:
    """The Avro schema of rows, as JSON, from that of change events; None if there is none in it.

    Debezium defines the row inside `before`, and `after` refers to it by its name.
    """
    schema = json.loads(event)
    fields = schema.get("fields", []) if isinstance(schema, dict) else []
    types = {field.get("name"): field.get("type") for field in fields if isinstance(field, dict)}
    defined = [record for member in ("after", "before") for record in _records(types.get(member))]
    if not ("op" in types and "after" in types and defined):
        return None
    namespace = {"namespace": schema["namespace"]} if "namespace" in schema else {}
    return json.dumps(namespace | defined[0], separators=(",", ":"))


def _records(schema: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - JSON
    """The records among the branches of a schema."""
    for branch in schema if isinstance(schema, list) else [schema]:
        if isinstance(branch, dict) and branch.get("type") == "record":
            yield branch

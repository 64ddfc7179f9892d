"""The content of a window partition as values of JSON, for `sluice windows` and for the page of the service."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pyarrow as pa

from sluice.columns.json_columns import json_values
from sluice.model.spec import Dedup, Join, Map, Pipeline, Union
from sluice.model.types import Schema
from sluice.time_units import SECOND, UNSET


def shown(pipeline: Pipeline, key: str | None, clock: int, window: Any) -> dict[str, Any]:  # noqa: ANN401 - an InspectedWindow
    """A window partition as a JSON object. Empty fields are left out. `clock`: nanoseconds since 1970."""
    schemas = {name: stream.schema for name, stream in pipeline.streams.items()}
    now = {stream: rows(tuples, schemas[stream]) for stream, tuples in window.now.items()}
    fields = {
        "operator": window.operator, "side": window.side, "window": _clause(pipeline, window.operator, window.side),
        "key": key, "clock": moment(clock), "tuples": window.tuples, "policy": window.policy, "held": window.held,
        "now": now,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value not in ("", None, [], {})}


def moment(clock: int) -> str | None:
    """A time in nanoseconds since 1970 as ISO 8601; None if it is not set or beyond the calendar."""
    if clock == UNSET:
        return None
    try:
        return datetime.fromtimestamp(clock / SECOND, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return None


def rows(tuples: pa.RecordBatch, schema: Schema) -> list[dict[str, Any]]:
    columns = [json_values(tuples.column(name), type_) for name, type_ in schema]
    return [dict(zip(tuples.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def shortened(window: Mapping[str, Any], most: int) -> dict[str, Any]:
    """The JSON object of a window partition with at most the last `most` tuples of each list.

    `left_out` is the number of tuples that the window holds and the object does not have.
    """
    found = dict(window)
    held = found.get("held", [])
    if len(held) > most:
        found |= {"held": held[-most:], "left_out": len(held) - most}
    if "now" in found:
        found["now"] = {stream: list(islice(made, most)) for stream, made in found["now"].items()}
    policy = found.get("policy", {})
    if policy:
        found["policy"] = {name: v[-most:] if isinstance(v, list) else v for name, v in policy.items()}
    return found


def _clause(pipeline: Pipeline, name: str, side: str) -> str:
    operator = next(operator for operator in pipeline.operators if operator.name == name)
    if isinstance(operator, Join):
        if operator.window is not None:
            return operator.window.clause()
        return {"left": operator.left, "right": operator.right}[side].window.clause()
    if isinstance(operator, Dedup):
        return operator.clause
    return "" if isinstance(operator, Map | Union) else operator.window.clause()

"""A hash over everything in a pipeline that its state or its outputs depend on, to notice a checkpoint of another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from sluice.model.spec import Pipeline
from sluice.model.types import Type

#: what may change while a checkpoint lives: where and how the service runs
IGNORED = {
    "Settings": {
        "kafka",
        "registry",
        "merge_wait",
        "trigger_interval",
        "max_records_per_batch",
        "max_bytes_per_batch",
        "checkpoint",
        "delivery",
        "on_data_loss",
        "start",
    },
    "Stream": {"partitions"},
    "Coding": {"avro_schema", "avro_writer_schema"},
}


def fingerprint(pipeline: Pipeline) -> str:
    """Hex digits; the same in every process and for every version of the service in which the file means the same."""
    text = json.dumps(plain(pipeline), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def plain(value: object) -> Any:  # noqa: ANN401 - JSON
    """As JSON. What has its default is left out, so that a later version may add fields."""
    match value:
        case Type():
            return str(value)
        case float():
            return repr(value)  # not equal to the int
        case Mapping():
            return {key: plain(inner) for key, inner in value.items()}
        case tuple():
            return [plain(inner) for inner in value]
    return fields_of(value) if is_dataclass(value) else value


def fields_of(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any of our values
    kind = type(value).__name__
    names = [f.name for f in fields(value) if f.name not in IGNORED.get(kind, ())]
    defaults = {f.name: f.default for f in fields(value) if f.default is not MISSING}
    differing = [name for name in names if name not in defaults or getattr(value, name) != defaults[name]]
    return {"is": kind, **{name: plain(getattr(value, name)) for name in differing}}

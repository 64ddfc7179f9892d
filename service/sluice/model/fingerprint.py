"""The fingerprint of a pipeline: a hash over everything that its state or its outputs depend on.

A start compares it with the fingerprint in the checkpoint, to detect a checkpoint of another pipeline.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from sluice.model.spec import Coding, Pipeline
from sluice.model.types import Type

#: by class: fields that may change while a checkpoint is in use, because outputs and state do not depend on them
IGNORED = {
    "Settings": {
        "kafka",
        "registry",
        "merge_wait",
        "trigger_interval",
        "latency",
        "max_records_per_batch",
        "max_bytes_per_batch",
        "direct_records",
        "checkpoint",
        "state",
        "state_options",
        "snapshot_interval",
        "snapshot_records",
        "durability",
        "delivery",
        "writers",
        "on_data_loss",
        "start",
        "restart",
        "class_timeout",
    },
    "Delta": {"unit"},
    "Stream": {"partitions", "marks_in_given", "reported"},
    **{operator: {"limits"} for operator in ("Aggregate", "Sort", "Join", "Dedup", "Custom", "KeyedMap", "Barrier")},
    "AvroOptions": {"avro_schema", "avro_writer_schema"},
    "ProtobufOptions": {"message", "files"},
    "JsonSchemaOptions": {"json_schema"},
}


def fingerprint(pipeline: Pipeline) -> str:
    """The fingerprint as 32 hex digits. It is the same in all processes, and in all versions of the service in which
    the pipeline file has the same meaning.
    """
    return digest_of(plain(pipeline))


def digest_of(definition: object) -> str:
    """The fingerprint of the pipeline with this definition, which is JSON data that `plain` made."""
    text = json.dumps(definition, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def plain(value: object) -> Any:  # noqa: ANN401 - JSON
    """The value as JSON data. Fields with default values are left out, so that a later version may add fields."""
    match value:
        case Type():
            return str(value)
        case float():
            return repr(value)  # 1.0 and 1 must differ
        case Mapping():
            return {key: plain(inner) for key, inner in value.items()}
        case tuple():
            return [plain(inner) for inner in value]
        case Coding():  # the options of a format stand beside its name
            return {**fields_of(value.options), **fields_of(Coding(value.format)), "is": "Coding"}
    return fields_of(value) if is_dataclass(value) else value


def fields_of(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass of the model
    kind = type(value).__name__
    names = [f.name for f in fields(value) if f.name not in IGNORED.get(kind, ())]
    defaults = {f.name: f.default for f in fields(value) if f.default is not MISSING}
    differing = [name for name in names if name not in defaults or getattr(value, name) != defaults[name]]
    return {"is": kind, **{name: plain(getattr(value, name)) for name in differing}}

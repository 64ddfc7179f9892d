"""The model of a whole pipeline file: which keys it may have, and which kinds of values.

Whether the values fit together is checked in checks/pipeline_builder.py. The JSON Schema for editors is generated from
these models, with their docstrings as descriptions:
`python -m sluice.config.syntax.file_models.pipeline_models > schemas/pipeline.schema.json`.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Literal

from pydantic import Field
from pydantic.json_schema import models_json_schema

from sluice.config.syntax.file_models.operator_models import AnyOperator
from sluice.config.syntax.file_models.stream_models import StreamShape
from sluice.config.syntax.file_models.value_models import Duration, FileModel, Latency, Name, Text


class FileShape(FileModel):
    """A pipeline of Sluice: windows over Kafka topics."""

    pipeline: Name = Field(description="The name of the pipeline, of its transactions in Kafka and in the ledger.")
    streams: dict[str, StreamShape] = Field(description="All streams, by name.", min_length=1)
    operators: list[AnyOperator] = Field(description="The operators, in any order.", min_length=1)
    dead_letters: str | None = Field(
        None,
        description="The stream for records that cannot be handled, with a topic and no schema. Without it they are "
        "only counted and logged.",
    )
    kafka: dict[str, Text] = Field(
        {},
        description="Properties of librdkafka. `${NAME}` is an environment variable, `${file:PATH}` the content of a "
        "file.",
        examples=[{"bootstrap.servers": "kafka:9092", "sasl.password": "${KAFKA_PASSWORD}"}],
    )
    registry: dict[str, Text] = Field(
        {},
        description="The schema registry of the `...-confluent` formats: properties of Confluent's client, with "
        "`${...}` as in `kafka`.",
        examples=[{"url": "https://registry:8081", "basic.auth.user.info": "${REGISTRY_USER}"}],
    )
    clock: Literal["processing", "records"] = Field(
        "processing", description="What advances the operator clock: records and the machine's clock, or records alone."
    )
    clock_origin: Text | None = Field(
        None,
        description="The time from which periodic timers count: ISO 8601, or seconds since 1970. Default: the "
        "timestamp of the first record.",
        examples=["2013-01-01T00:00:00Z", 0],
    )
    merge: Literal["arrival", "timestamp"] = Field(
        "arrival",
        description="The order of records of several topic partitions: by timestamp within each batch (`arrival`), "
        "or over all batches (`timestamp`), where a record waits until every other topic partition has "
        "sent a later one.",
    )
    merge_wait: Duration = Field(
        5.0,
        description="With `merge: timestamp`: the longest wait for a silent topic partition, in seconds. No limit with "
        "`clock: records`.",
    )
    max_future: Duration = Field(
        3600.0,
        description="Seconds by which the timestamp of a record may be ahead of the time of reading; others become "
        "dead letters.",
    )
    trigger_interval: Duration = Field(
        0.0, description="Seconds between the starts of two batches; 0: `latency` decides."
    )
    latency: Latency | None = Field(
        None,
        description="How soon the next batch starts, without `trigger_interval`: `low`, at once; `balanced` (the "
        "default) or `cheap`, so that the fixed work of batches takes at most half or a tenth of a "
        "processor; a duration up to 1s, so that a record waits at most so long. See operations.md.",
    )
    max_records_per_batch: int = Field(250_000, ge=1, le=2**29, description="The most records that one batch reads.")
    max_bytes_per_batch: int = Field(
        256 << 20,
        ge=1,
        le=2**53,
        description="About how many bytes of keys, values and headers one batch reads at most. Each start measures "
        "records, and lowers `max_records_per_batch`.",
    )
    direct_records: int = Field(
        10_000,
        ge=0,
        le=100_000,
        description="The largest batch, in records (and 16 MiB), that the service's own process reads; several "
        "processes read larger ones. 0: each batch is a job of Spark, as on a cluster.",
    )
    buckets: int | None = Field(
        None,
        ge=1,
        le=65536,
        description="The number of slices of the key space, the units of parallel work. It may change at any start, "
        "but not to or from 1 if operators read one input with different keys.",
    )
    checkpoint: str | None = Field(
        None,
        description="The folder of state and progress. Default: checkpoints/ and the pipeline's name, in the current "
        "folder.",
    )
    state: str | None = Field(
        None,
        description="A store of snapshots that outlives the checkpoint's folder, and from which a start without it "
        "restores it: the URL of an object store (`s3://`, `gs://`, `az://`, `abfs://`), or a folder.",
        examples=["s3://bucket/sluice", "/mnt/snapshots"],
    )
    state_options: dict[str, Text] = Field(
        {},
        description="Settings of the object store's client, such as `region` or `access_key_id`, with `${...}` as in "
        "`kafka`. Others come from the environment (`AWS_...`, `GOOGLE_...`, `AZURE_...`) or the machine's "
        "role.",
        examples=[{"region": "eu-central-1"}],
    )
    snapshot_interval: Duration = Field(300.0, description="With `state`: seconds until the next snapshot.")
    snapshot_records: int = Field(10_000_000, ge=1, description="With `state`: records until an earlier snapshot.")
    durability: Literal["process", "machine"] = Field(
        "process",
        description="What the checkpoint survives: the death of any process, or also a loss of power (`machine`), for "
        "which each batch waits for the disk.",
    )
    delivery: Literal["exactly_once", "at_least_once"] = Field("exactly_once", description="The delivery guarantee.")
    writers: Literal["one", "buckets"] | None = Field(
        None,
        description="Which processes write the outputs: `one`, in one transaction for each batch, or each of the "
        "`buckets`, in its own. Default: `one`, on a cluster `buckets`.",
        examples=["buckets"],
    )
    on_data_loss: Literal["fail", "continue"] = Field(
        "fail",
        description="If records were deleted before they were read: end with an error, or go on with the records that "
        "exist.",
    )
    start: Literal["earliest", "latest"] = Field(
        "earliest", description="Where an input topic without stored offsets is read from."
    )
    restart: Literal["always", "on-failure", "never"] | None = Field(
        None,
        description="When a service starts an ended pipeline again. Default: never in a service of one file, else "
        "on-failure. `sluice run --restart` has precedence.",
        examples=["on-failure"],
    )
    class_timeout: Duration = Field(
        60.0,
        description="The most seconds that a call of a Python class may take; a longer one ends the batch. 0: no "
        "limit.",
        examples=["5m"],
    )


def json_schema() -> dict[str, Any]:
    _, schema = models_json_schema([(FileShape, "validation")], by_alias=True)
    definitions: dict[str, Any] = schema["$defs"]
    top = definitions.pop("FileShape")
    header = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Sluice pipeline"}
    return {**header, **{key: value for key, value in top.items() if key != "title"}, "$defs": definitions}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")

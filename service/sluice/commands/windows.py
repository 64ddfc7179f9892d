"""`sluice windows FILE`: shows the content of the windows of a service."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import orjson
import pyarrow as pa

from sluice.columns.json_columns import json_values
from sluice.commands import options
from sluice.config.load import load
from sluice.model.spec import Dedup, Join, Map, Pipeline, Union
from sluice.model.stages import stages
from sluice.model.types import Schema


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--key", help="Key of the window partitions, as in the record keys of the outputs.")
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Checkpoint folder, overrides that of the FILE.")
def windows(file: Path, key: str | None, checkpoint: Path | None) -> None:
    """Show the contents of the windows of the pipeline FILE, one JSON object per line: the windows of a key, and the
    windows without keys.

    The command reads only the checkpoint. The service may run meanwhile.
    """
    pipeline = load(file, environment=None, overrides=options.given(checkpoint=checkpoint))
    from sluice.inspect.window_reader import read_windows  # noqa: PLC0415 - it imports Spark, which takes 1 s and is not needed if the file is wrong

    found = [shown(stage, key, *one) for stage in stages(pipeline) for one in read_windows(stage, key)]
    sys.stdout.buffer.writelines(orjson.dumps(one, option=orjson.OPT_APPEND_NEWLINE) for one in found)
    sys.stdout.buffer.flush()
    if not found:
        click.echo(f"no window has contents for the key {key}" if key else "no window has contents", err=True)


def shown(pipeline: Pipeline, key: str | None, clock: int, window: Any) -> dict[str, Any]:  # noqa: ANN401
    """A window partition as a JSON object. Empty fields are left out."""
    schemas = {name: stream.schema for name, stream in pipeline.streams.items()}
    now = {stream: rows(tuples, schemas[stream]) for stream, tuples in window.now.items()}
    fields = {
        "operator": window.operator, "side": window.side, "window": _clause(pipeline, window.operator, window.side),
        "key": key, "clock": datetime.fromtimestamp(clock / 1e9, UTC).isoformat(), "tuples": window.tuples,
        "policy": window.policy, "held": window.held, "now": now,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value not in ("", None, [], {})}


def rows(tuples: pa.RecordBatch, schema: Schema) -> list[dict[str, Any]]:
    columns = [json_values(tuples.column(name), type_) for name, type_ in schema]
    return [dict(zip(tuples.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _clause(pipeline: Pipeline, name: str, side: str) -> str:
    operator = next(operator for operator in pipeline.operators if operator.name == name)
    if isinstance(operator, Join):
        if operator.window is not None:
            return operator.window.clause()
        return {"left": operator.left, "right": operator.right}[side].window.clause()
    if isinstance(operator, Dedup):
        return operator.clause
    return "" if isinstance(operator, Map | Union) else operator.window.clause()

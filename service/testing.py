"""Runs single operators over given events: for tests of the engine, and for your own of your pipelines' windows.

>>> run_case({
...     "operator": {"kind": "aggregate", "window": "tumbling, count(2)", "output": {"sum": "Sum(x)"}},
...     "input": [{"at": 0.0, "tuple": {"x": 1}}, {"at": 1.0, "tuple": {"x": 2}}],
... })
[{'after': 1, 'tuple': {'sum': 3}}, {'after': 1, 'punct': 'window'}]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import orjson

from service.engine.events import Batch, Cutter, Event, Placed, numbered, topic_partitions
from service.engine.replay import Player, with_origin
from service.engine.values import python_values
from service.pipeline.grammar import RESERVED
from service.pipeline.load import load_text
from service.pipeline.spec import Pipeline

Record = dict[str, Any]

#: parameters of a case's operator that the pipeline file has under the same name
PARAMETERS = ("window", "partition_by", "group_by", "aggregate_incomplete_windows")
#: in an expression: a constant text, and what is no function
STRING, NAME = r"\"([^\"\\]|\\.)*\"|'([^'\\]|\\.)*'", r"\b[^\W\d]\w*\b(?!\s*\()"
TYPES = {bool: "boolean", int: "int64", float: "float64", str: "string"}


def run_case(case: dict[str, Any], cuts: list[int] | None = None) -> list[Record]:
    """The output of one case in the format of the conformance vectors (tests/conformance/README.md).

    `cuts` are the sizes of the batches, 0 for an empty one; events beyond them are one more batch; None: one batch.
    Between batches the state is serialised and read back into a new engine. Keys of `case` that only people need may be
    missing. Beyond the vectors, an event may have a `topic_partition` (default 0) and the operator a `schema`,
    attribute -> type, for what its values do not tell: a `timestamp`, or the attributes of a case without tuples.
    """
    pipeline = pipeline_of(case)
    events = list(numbered(case["input"]))
    partitions = topic_partitions(events, ["input"])
    saved: bytes | None = None
    records: list[Record] = []
    for batch in _batches(pipeline, events, cuts):
        player = Player(pipeline, partitions, python_values)
        state = player.graph.initial() if saved is None else player.graph.load(saved)
        records += player.feed(state, batch)
        saved = player.graph.save(state)
    return [{key: value for key, value in record.items() if key != "stream"} for record in records]


def pipeline_of(case: dict[str, Any]) -> Pipeline:
    """The case's operator as a pipeline from the stream `input` to the stream `output`."""
    operator = case["operator"]
    if operator.get("kind", "aggregate") != "aggregate":
        msg = f"operators of kind {operator['kind']}"
        raise NotImplementedError(msg)
    parameters = {name: operator[name] for name in PARAMETERS if operator.get(name)}
    file = {
        "pipeline": "case",
        "streams": {
            "input": {"topic": "input", "schema": schema_of(operator, case["input"])},
            "output": {"topic": "output"},
        },
        "operators": [{"name": "case", "aggregate": "input", **parameters, "output": {"output": operator["output"]}}],
    }
    return with_origin(load_text(orjson.dumps(file).decode(), "case", environment=None), None)


def schema_of(operator: dict[str, Any], events: Sequence[Event]) -> dict[str, str]:
    """The type of each attribute: as given, as its values are, or else int64."""
    schema = dict.fromkeys(_attributes(operator), "int64") | _deltas(operator)
    for event in events:
        for name, value in event.get("tuple", {}).items():
            schema[name] = _type_of(value, schema.get(name))
    given: dict[str, str] = operator.get("schema", {})
    return schema | given


def _attributes(operator: dict[str, Any]) -> list[str]:
    """The names that an operator reads, whether or not an event has them."""
    texts = [*operator["output"].values(), *operator.get("partition_by", []), *operator.get("group_by", [])]
    without_strings = [re.sub(STRING, "", text) for text in texts]
    return [name for text in without_strings for name in re.findall(NAME, text) if name not in RESERVED]


def _deltas(operator: dict[str, Any]) -> dict[str, str]:
    """The attributes of its deltas: as the sizes are."""
    sizes = re.findall(r"delta\((\w+)\s*,\s*([^)]*)\)", operator["window"])
    return {name: "float64" if "." in size else "int64" for name, size in sizes}


def _type_of(value: object, known: str | None) -> str:
    if isinstance(value, list):
        return f"list<{_type_of(value[0], None)}>" if value else known or "list<int64>"
    if type(value) not in TYPES:
        msg = f"no type has the value {value!r}"
        raise TypeError(msg)
    return TYPES[type(value)]


def _batches(pipeline: Pipeline, events: list[Placed], cuts: list[int] | None) -> Iterator[Batch]:
    cutter = Cutter({stream.name: stream.schema for stream in pipeline.inputs})
    rest = iter(events)
    for size in cuts or []:
        yield cutter.batch(list(islice(rest, size)))
    yield cutter.batch(list(rest))

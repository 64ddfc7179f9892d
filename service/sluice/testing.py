"""Runs single operators over given events: for tests of the engine, and for your own of your pipelines' windows.

>>> run_case({
...     "operator": {"kind": "aggregate", "window": "tumbling, count(2)", "output": {"sum": "Sum(x)"}},
...     "input": [{"at": 0.0, "tuple": {"x": 1}}, {"at": 1.0, "tuple": {"x": 2}}],
... })
[{'after': 1, 'tuple': {'sum': 3}}, {'after': 1, 'punct': 'window'}]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import orjson

from sluice.columns.json_columns import python_values
from sluice.config.load import load_text
from sluice.config.syntax.expression_grammar import RESERVED
from sluice.engine.stream.rejects import NO_VALUE
from sluice.model.spec import Pipeline
from sluice.replayer.event_file import Batch, Cutter, Event, Placed, numbered, topic_partitions
from sluice.replayer.player import Player, with_origin

Record = dict[str, Any]

#: parameters of a case's operator that the pipeline file has under the same name
PARAMETERS = {
    "aggregate": (
        "window", "partition_by", "group_by", "aggregate_incomplete_windows", "aggregate_evicted_partitions", "align",
        "emit", "window_set",
    ),
    "sort": ("window", "partition_by", "align"),
    "custom": ("window", "partition_by", "align", "handler"),
    "join": (
        "partition_by_left", "partition_by_right", "algorithm", "equality_left", "equality_right", "match",
        "default_left", "default_right",
    ),
}  # fmt: skip
UNMATCHED = ("unmatched_left", "unmatched_right")
#: in an expression: a constant text, and what is no function
STRING, NAME = r"\"([^\"\\]|\\.)*\"|'([^'\\]|\\.)*'", r"\b[^\W\d]\w*\b(?!\s*\()"
TYPES = {bool: "boolean", int: "int64", float: "float64", str: "string"}


def run_case(case: dict[str, Any], cuts: list[int] | None = None) -> list[Record]:
    """The output of one case in the format of the conformance vectors (tests/spec/conformance/README.md).

    `cuts` are the sizes of the batches, 0 for an empty one; events beyond them are one more batch; None: one batch.
    Between batches the state is serialised and read back into a new engine. Keys of `case` that only people need may be
    missing. Beyond the vectors, an event may have a `topic_partition` (default 0) and the operator a `schema`,
    attribute -> type, for what its values do not tell: a `timestamp`, or the attributes of a case without tuples; and
    `mark_when` and `marks_in` of its input. A join has a `schema_left` and a `schema_right`; with
    `unmatched_left: true` (`unmatched_right`) the tuples of that side that come out alone have this as their `stream`.

    Dead letters are among the records if the case has `dead_letters: true`. Else those that came too late are left out,
    and one for which an expression has no value is an error: a case that expects a tuple should say why none comes.
    """
    pipeline = pipeline_of(case)
    streams = [stream.name for stream in pipeline.inputs]
    events = list(numbered(map(on_stream, case["input"])))
    partitions = topic_partitions(events, streams)
    saved: bytes | None = None
    records: list[Record] = []
    for batch in _batches(pipeline, events, cuts):
        player = Player(pipeline, partitions, python_values)
        state = player.graph.initial() if saved is None else player.graph.load(saved)
        records += player.feed(state, batch)
        saved = player.graph.save(state)
    if not case.get("dead_letters"):
        records = list(_without_late(records))
    return [{key: value for key, value in r.items() if (key, value) != ("stream", "output")} for r in records]


def _without_late(records: Iterable[Record]) -> Iterator[Record]:
    for record in records:
        letter = record.get("dead_letter", {"reason": ""})
        if NO_VALUE in letter["reason"]:
            msg = f"event {record['after']}: {letter['reason']}, of {letter['tuple']}"
            raise ValueError(msg)
        if "dead_letter" not in record:
            yield record


def on_stream(event: Event) -> Event:
    """An event with its port as the stream that comes in there."""
    return {("stream" if key == "port" else key): value for key, value in event.items()}


def pipeline_of(case: dict[str, Any]) -> Pipeline:
    """The case's operator as a pipeline to the stream `output`, from `input`, or of a join from `left` and `right`."""
    operator = case["operator"]
    inputs = ("left", "right") if operator.get("kind") == "join" else ("input",)
    written = ["output", *(name for name in UNMATCHED if operator.get(name))]
    file = {
        "pipeline": "case",
        "streams": {
            name: {"topic": name, "schema": schema_of(operator, case["input"], name)} | about_input(operator)
            for name in inputs
        }
        | {name: {"topic": name} for name in written},
        "operators": [{"name": "case"} | operator_of(operator)],
    }
    return with_origin(load_text(orjson.dumps(file).decode(), "case", environment=None), None)


def operator_of(operator: dict[str, Any]) -> dict[str, Any]:
    """A case's operator as the pipeline file has it."""
    kind = operator.get("kind", "aggregate")
    given = {name: operator[name] for name in PARAMETERS[kind] if operator.get(name)}
    match kind:
        case "sort":
            return given | {"sort": "input", "order_by": dict(operator["order_by"]), "output": ["output"]}
        case "custom":
            return given | {"custom": "input", "output": ["output"]}
        case "join":
            ports = {"join": {"left": "left", "right": "right"}, "output": {"output": operator["output"]}}
            windows = {"window_left": operator["left"], "window_right": operator["right"]}
            return given | ports | windows | {name: name for name in UNMATCHED if operator.get(name)}
        case _:
            return given | {kind: "input", "output": {"output": operator["output"]}}


def about_input(operator: dict[str, Any]) -> dict[str, Any]:
    """The input's marks and its event time. The resolution is that of an int64; seconds are a float64."""
    marks: dict[str, Any] = {name: operator[name] for name in ("mark_when", "marks_in") if name in operator}
    if "event_time" not in operator:
        return marks
    resolution = operator.get("event_time_resolution")
    given = {"attribute": operator["event_time"]} | ({"resolution": resolution.lower()} if resolution else {})
    return marks | {"event_time": given}


def schema_of(operator: dict[str, Any], events: Sequence[Event], stream: str) -> dict[str, str]:
    """The type of each attribute of an input: as given, as its values are, or else int64. There is at least one."""
    join = stream != "input"
    end = f"_{stream}" if join else ""
    window = operator[stream] if join else operator["window"]
    schema = dict.fromkeys(_named(operator, stream), "int64") | _deltas(window)
    if "event_time" in operator:
        schema[operator["event_time"]] = "int64" if "event_time_resolution" in operator else "float64"
    tuples = [e["tuple"] for e in events if "tuple" in e and e.get("port", "input") == stream]
    for values in [operator.get(f"default{end}") or {}, *tuples]:
        for name, value in values.items():
            schema[name] = _type_of(value, schema.get(name))
    schema |= operator.get(f"schema{end}", {})
    return schema or {"nothing": "int64"}


def _named(operator: dict[str, Any], stream: str) -> list[str]:
    """The attributes of an input that an operator reads, whether or not an event has them."""
    if stream != "input":
        expressions = ",".join([*operator["output"].values(), operator.get("match", "")])
        keys = operator.get(f"partition_by_{stream}", []) + operator.get(f"equality_{stream}", [])
        return [*keys, *re.findall(rf"\b{stream}\.(\w+)", expressions)]
    texts = [*operator.get("output", {}).values(), *operator.get("partition_by", []), *operator.get("group_by", [])]
    texts += dict(operator.get("order_by", ()))
    without_strings = [re.sub(STRING, "", text) for text in texts]
    return [name for text in without_strings for name in re.findall(NAME, text) if name not in RESERVED]


def _deltas(window: str) -> dict[str, str]:
    """The attributes of its deltas: as the sizes are."""
    sizes = re.findall(r"delta\((\w+)\s*,\s*([^)]*)\)", window)
    return {name: "float64" if "." in size else "int64" for name, size in sizes}


def _type_of(value: object, known: str | None) -> str:
    """The type of a value, or the one that is known to hold it: float64 holds whole numbers, too."""
    if isinstance(value, list):
        inner = known.removeprefix("list<")[:-1] if known else None
        for one in value:
            inner = _type_of(one, inner)
        return f"list<{inner or 'int64'}>"
    if type(value) not in TYPES:
        msg = f"no type has the value {value!r}"
        raise TypeError(msg)
    found = TYPES[type(value)]
    return "float64" if {found, known} == {"int64", "float64"} else found


def _batches(pipeline: Pipeline, events: list[Placed], cuts: list[int] | None) -> Iterator[Batch]:
    cutter = Cutter(pipeline.inputs)
    rest = iter(events)
    for size in cuts or []:
        yield cutter.batch(list(islice(rest, size)))
    yield cutter.batch(list(rest))

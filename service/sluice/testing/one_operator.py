"""Runs a single operator over given events, for tests of the engine and for users' tests of their windows.

>>> run_case({
...     "operator": {"kind": "aggregate", "window": "tumbling, count(2)", "output": {"sum": "Sum(x)"}},
...     "input": [{"at": 0.0, "tuple": {"x": 1}}, {"at": 1.0, "tuple": {"x": 2}}],
... })
[{'after': 1, 'tuple': {'sum': 3}}, {'after': 1, 'punct': 'window'}]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import cycle, islice
from typing import Any

import orjson

from sluice.columns.json_columns import python_values
from sluice.config.load import load_text
from sluice.config.syntax.expression_grammar import RESERVED
from sluice.engine.stream.functions.function_errors import REASONS, Error
from sluice.model.engine_limits import EngineLimits
from sluice.model.spec import Delay, KeyedMap, Map, Operator, Pipeline, Union
from sluice.replayer.event_batches import Batch, Cutter
from sluice.replayer.event_file import Event, LocatedEvent, numbered, topic_partitions
from sluice.replayer.player import Player, with_origin

Record = dict[str, Any]

#: the parameters of a case's operator that have the same name in the pipeline file
PARAMETERS = {
    "aggregate": (
        "window", "partition_by", "group_by", "aggregate_incomplete_windows", "aggregate_evicted_partitions", "align",
        "emit", "early", "window_set", "emit_rest", "empty_panes",
    ),
    "sort": ("window", "partition_by", "align", "limit", "with_ties", "emit_rest"),
    "dedup": ("by", "within", "keep", "reset_on_duplicate", "flush_on_mark"),
    "map": ("each", "where", "partition_by", "forget_after"),
    "custom": ("window", "partition_by", "align", "handler"),
    "join": (
        "window", "partition_by_left", "partition_by_right", "algorithm", "equality_left", "equality_right", "match",
        "default_left", "default_right",
    ),
}  # fmt: skip
UNMATCHED = ("unmatched_left", "unmatched_right")
#: patterns for expressions: a string literal, and a name that is not called as a function
STRING, NAME = r"\"([^\"\\]|\\.)*\"|'([^'\\]|\\.)*'", r"\b(?!where\s*:)[^\W\d]\w*\b(?!\s*\()"
#: pattern for a case with a class of Python
CLASSES = re.compile(r'Custom\(|"handler"')
TYPES = {bool: "boolean", int: "int64", float: "float64", str: "string"}


def run_case(case: dict[str, Any], cuts: list[int] | None = None) -> list[Record]:
    """Runs one case and returns its output records.

    Cases and records have the format of the conformance vectors (tests/spec/conformance/README.md). Keys of `case` that
    are only documentation may be missing.

    `cuts` has the sizes of the batches, 0 for an empty one; the remaining events are one more batch. None: one batch.
    Between batches the state is serialised and loaded into another engine. There are two, so that neither of them has
    seen the batch before.

    The following is allowed beyond the vectors. An event may have a `topic_partition` (default 0). The operator may
    have a `union`, the names of several input streams, of which each event names one as its `port`. The operator may
    have a `schema`, attribute -> type, for types that the values do not show: a `timestamp`, or the attributes of a
    case without tuples. It may have the `mark_when` and `marks_in` of its input, and with an `event_time` also
    `watermarks`, the other keys of the input's `event_time`, such as `lag`. It may have a `clock_origin`, the time from
    which its timer counts. A join has `schema_left` and
    `schema_right`, and either `left` and `right`, or `window` with an `event_time`, or `table: true`, if the right side
    is a table, whose key is `equality_right`; an aggregate over a table has the
    `table_key`; with `unmatched_left: true` (`unmatched_right: true`) the unmatched
    tuples of that side are written to a stream of this name.

    `limits` (an EngineLimits) sets sizes of the engine's tables, on which no output depends.

    With `dead_letters: true` in the case, dead letters are among the records. Without it, late tuples are left out, and
    tuples with a null where none may be. A tuple for which an expression has no value raises ValueError, because the
    case would otherwise fail without a reason.
    """
    pipeline = pipeline_of(case)
    streams = [stream.name for stream in pipeline.inputs]
    events = list(numbered(map(on_stream, case["input"])))
    partitions = topic_partitions(events, streams)
    saved: bytes | None = None
    records: list[Record] = []
    batches = list(_batches(pipeline, events, cuts))
    players = [Player(pipeline, partitions, python_values) for _ in batches[:2]]
    for player, batch in zip(cycle(players), batches, strict=False):
        state = player.graph.initial() if saved is None else player.graph.load(saved)
        records += player.feed(state, batch)
        saved = player.graph.save(state)
    if not case.get("dead_letters"):
        records = list(_without_late(records))
    return [{key: value for key, value in r.items() if (key, value) != ("stream", "output")} for r in records]


def _without_late(records: Iterable[Record]) -> Iterator[Record]:
    for record in records:
        letter = record.get("dead_letter", {"reason": ""})
        if any(letter["reason"].endswith(reason) for error, reason in REASONS.items() if error != Error.ABSENT):
            msg = f"event {record['after']}: {letter['reason']}, of {letter['tuple']}"
            raise ValueError(msg)
        if "dead_letter" not in record:
            yield record


def on_stream(event: Event) -> Event:
    """The event with its `port` renamed to `stream`."""
    return {("stream" if key == "port" else key): value for key, value in event.items()}


def pipeline_of(case: dict[str, Any]) -> Pipeline:
    """The case's operator as a pipeline from the stream `input` to `output`.

    A join has the inputs `left` and `right`, a union the streams that it names.
    """
    operator = case["operator"]
    inputs = ("left", "right") if operator.get("kind") == "join" else operator.get("union", ("input",))
    written = ["output", *(name for name in UNMATCHED if operator.get(name))]
    file = {
        "pipeline": "case",
        "streams": {
            name: {"topic": name, "schema": schema_of(operator, case["input"], name)}
            | about_input(operator)
            | about_table(operator, name)
            for name in inputs
        }
        | {name: {"topic": name} for name in written},
        "operators": [{"name": "case"} | operator_of(operator)],
    }
    origin = operator.get("clock_origin")
    text = orjson.dumps(file).decode()
    pipeline = with_origin(_loaded.__wrapped__(text) if CLASSES.search(text) else _loaded(text), origin)
    return limited(pipeline, case["limits"]) if "limits" in case else pipeline


@lru_cache(maxsize=16)
def _loaded(text: str) -> Pipeline:
    """A case is often run several times, in other batches. Not for a case with classes, which may have changed."""
    return load_text(text, "case", environment=None)


def limited(pipeline: Pipeline, limits: EngineLimits) -> Pipeline:
    """The pipeline whose operators have these sizes of tables. The outputs are the same."""
    return replace(pipeline, operators=tuple(_limited(operator, limits) for operator in pipeline.operators))


def _limited(operator: Operator, limits: EngineLimits) -> Operator:
    if isinstance(operator, Map | Union | Delay) and not isinstance(operator, KeyedMap):
        return operator
    return replace(operator, limits=limits)


def operator_of(operator: dict[str, Any]) -> dict[str, Any]:
    """The case's operator in the form of the pipeline file."""
    kind, input_ = operator.get("kind", "aggregate"), operator.get("union", "input")
    parameters = {
        name: operator[name] for name in PARAMETERS[kind] if operator.get(name) or name in null_sides(operator)
    }
    if "aggregate_incomplete_windows" in operator and kind == "aggregate":  # the default of a pipeline file is true
        parameters["aggregate_incomplete_windows"] = operator["aggregate_incomplete_windows"]
    match kind:
        case "sort":
            output = {"output": operator["output"]} if "output" in operator else ["output"]
            return parameters | {"sort": input_, "order_by": dict(operator["order_by"]), "output": output}
        case "dedup":
            return parameters | {"dedup": input_, "output": ["output"]}
        case "custom":
            return parameters | {"custom": input_, "output": ["output"]}
        case "join":
            ports = {"join": {"left": "left", "right": "right"}, "output": {"output": operator["output"]}}
            windows = {f"window_{side}": operator[side] for side in ("left", "right") if side in operator}
            return parameters | ports | windows | {name: name for name in UNMATCHED if operator.get(name)}
        case _:
            return parameters | {kind: input_, "output": {"output": operator["output"]}}


def null_sides(operator: dict[str, Any]) -> list[str]:
    """The keys `default_left` and `default_right` that have null as value, which is not the same as no such key."""
    return [name for name in ("default_left", "default_right") if name in operator and operator[name] is None]


def about_input(operator: dict[str, Any]) -> dict[str, Any]:
    """The keys of an input stream for its marks and its event time. A case gives a resolution only for an int64."""
    marks: dict[str, Any] = {name: operator[name] for name in ("mark_when", "marks_in") if name in operator}
    if "event_time" not in operator:
        return marks
    resolution = operator.get("event_time_resolution")
    options = {"attribute": operator["event_time"]} | ({"resolution": resolution.lower()} if resolution else {})
    return marks | {"event_time": options | operator.get("watermarks", {})}


def about_table(operator: dict[str, Any], stream: str) -> dict[str, Any]:
    """The keys of an input stream that is a table: the right side of a join with `table: true`, or the input of an
    aggregate with a `table_key`.
    """
    if "table_key" in operator:
        return {"key": {"attributes": operator["table_key"], "format": "json"}, "table": True}
    if not operator.get("table") or stream != "right":
        return {}
    return {"key": {"attributes": operator["equality_right"], "format": "json"}, "table": True}


def schema_of(operator: dict[str, Any], events: Sequence[Event], stream: str) -> dict[str, str]:
    """The type of each attribute of an input: the given one, else the type of its values, else int64.

    The schema has at least one attribute.
    """
    join = operator.get("kind") == "join"
    end = f"_{stream}" if join else ""
    window = operator.get(stream, "") if join else operator.get("window", "")
    schema = dict.fromkeys(_named(operator, stream), "int64") | _deltas(window)
    if "event_time" in operator:
        schema[operator["event_time"]] = "int64" if "event_time_resolution" in operator else "float64"
    tuples = [e["tuple"] for e in events if "tuple" in e and (not join or e["port"] == stream)]
    types = operator.get(f"schema{end}", {})
    for values in [operator.get(f"default{end}") or {}, *tuples]:
        for name in (name for name, value in values.items() if value is not None and name not in types):
            schema[name] = _type_of(values[name], schema.get(name))
    schema |= types
    return schema or {"nothing": "int64"}


def _named(operator: dict[str, Any], stream: str) -> list[str]:
    """The attributes of an input that the operator's expressions use, whether or not an event has them."""
    if operator.get("kind") == "join":
        expressions = ",".join([*operator["output"].values(), operator.get("match", "")])
        keys = operator.get(f"partition_by_{stream}", []) + operator.get(f"equality_{stream}", [])
        return [*keys, *re.findall(rf"\b{stream}\.(\w+)", expressions)]
    texts = [*operator.get("output", {}).values()]
    texts += [text for key in ("partition_by", "group_by", "by") for text in operator.get(key, [])]
    texts += dict(operator.get("order_by", ()))
    without_strings = [re.sub(STRING, "", text) for text in texts]
    return [name for text in without_strings for name in re.findall(NAME, text) if name not in RESERVED]


def _deltas(window: str) -> dict[str, str]:
    """The attributes of the window's delta policies, with the types of the policies' sizes."""
    sizes = re.findall(r"delta\((\w+)\s*,\s*([^)]*)\)", window)
    return {name: "float64" if "." in size else "int64" for name, size in sizes}


def _type_of(value: object, type_before: str | None) -> str:
    """The type of a value; float64 if either the value or the `type_before` type is float64 and the other is int64."""
    if isinstance(value, list):
        inner = type_before.removeprefix("list<")[:-1] if type_before else None
        for item in value:
            inner = _type_of(item, inner)
        return f"list<{inner or 'int64'}>"
    if type(value) not in TYPES:
        msg = f"no type has the value {value!r}"
        raise TypeError(msg)
    name = TYPES[type(value)]
    return "float64" if {name, type_before} == {"int64", "float64"} else name


def _batches(pipeline: Pipeline, events: list[LocatedEvent], cuts: list[int] | None) -> Iterator[Batch]:
    cutter = Cutter(pipeline.inputs)
    rest = iter(events)
    for size in cuts or []:
        yield cutter.batch(list(islice(rest, size)))
    yield cutter.batch(list(rest))

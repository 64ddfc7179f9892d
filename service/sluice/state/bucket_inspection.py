"""The inspection of a bucket: its clock, its watermarks by topic partition, its sizes, and the windows of a key.

It is a request of the service's own process, which the state server of the bucket answers between two batches. The
service sends one of a pair of connected sockets through the socket of the pool that has a name (pool.py), and the pool
passes it on to the state server.

An inspection cannot disturb a batch: a state server answers in a forked copy of itself, which has the memory of
the moment of the fork, has at most INSPECTION_S seconds, and writes at most MAX_ANSWER bytes, which fit into the
socket. While one inspection runs, the server refuses others. A question is in the socket before the socket is passed
on, so the server never waits for it. The copy ends afterwards, so it may change its state: it finds what windows over
event time would emit now by closing them.

The content of a window partition as JSON values (`rows`) is also what `sluice windows` prints.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.api import call_limit
from sluice.columns.interner import Interner
from sluice.columns.json_columns import shown_values
from sluice.engine.graph import Clock, GraphState, no_items
from sluice.engine.stream.items import MADE, MAX_TIME, TUPLE, WATERMARK, WINDOW, Items
from sluice.json_texts import COMPACT, text_with_digits, with_digits
from sluice.model.spec import Dedup, InWords, Join, Map, Pipeline, Union, Windowed
from sluice.model.types import Schema
from sluice.state.bucket import Bucket
from sluice.state.message import Message
from sluice.state.server.pool import INSPECTION, send_inspection
from sluice.time_units import SECOND, UNSET

#: maximum number of tuples of each list of a window, and of windows of a key
MAX_TUPLES, MAX_WINDOWS = 50, 50
#: keys that an answer has, and the newest keys of each operator among which they are searched
MAX_KEYS, MAX_SEARCHED = 20, 200_000
#: the topic partitions of a stream in the report of a batch, beside the furthest one
MAX_SLOWEST = 3
#: an operator with more window partitions than this is not closed to find what its windows would emit now
MAX_CLOSED = 50_000


#: maximum seconds of the copy that answers
INSPECTION_S = 3
#: maximum bytes of an answer
MAX_ANSWER = 128 << 10
#: seconds that the service waits for an answer beyond INSPECTION_S: the batch that runs ends first
MAX_DELAY_S = 1.0
#: niceness of the copy: batches get the CPU first
NICE = 5


def inspect_bucket(bucket: Bucket, question: Mapping[str, Any]) -> dict[str, Any]:
    """The answer as values of JSON. `question["key"]`, if it is given, is the key whose windows the answer has; null:
    windows without keys.

    clock     the operator clock; null if it has not started. All times are nanoseconds since 1970
    due       when the clock alone causes the next output; null if it does not
    held      bytes of the state after the last batch
    streams   by stream with event time: its watermark (null: none yet) and its topic partitions
    finals    by input stream: the topic partitions that have sent their final mark
    waiting   by stream with aligned marks, then by topic partition: the number of marks that wait for other marks
    sizes     by operator: the numbers of its window partitions and of the tuples in them
    keys      the newest keys of window partitions; if `question["keys"]` is given, only keys that contain this text
    windows   the windows of the key, and windows without keys (state/bucket_inspection.py)
    """
    state = bucket.in_memory()
    if state is None:
        return {"bucket": bucket.number, "version": None}
    answer: dict[str, Any] = {
        "bucket": bucket.number, "version": bucket.version, "clock": _time(state.now), "due": bucket.due(),
        "held": bucket.held, "streams": _streams(state), "waiting": _waiting(state),
        "finals": {name: sorted(sources) for name, sources in state.finals.items() if sources},
        "sizes": {name: list(sizes) for name, sizes in bucket.sizes().items()},
        "keys": known_keys(state, str(question.get("keys", ""))),
    }  # fmt: skip
    if "key" in question:
        inspected = bucket.graph.inspect(state, question["key"])
        pipeline = bucket.plan.pipeline
        windows = [
            shortened(shown(pipeline, question["key"], state.now, window), MAX_TUPLES)
            for window in inspected[:MAX_WINDOWS]
        ]
        answer["windows"] = [_with_outputs(window, bucket, state, question["key"]) for window in windows]
    return answer


def known_keys(state: GraphState, part: str) -> list[str]:
    """The newest keys of window partitions that contain a text, newest first, at most MAX_KEYS. Of each operator the
    MAX_SEARCHED newest keys are searched, so the cost has a bound.
    """
    names: dict[str, None] = {}
    for remembered in state.operators:
        keys = getattr(getattr(remembered, "windows", remembered), "keys", None)
        if isinstance(keys, Interner):
            newest = keys.take(np.arange(max(0, keys.count - MAX_SEARCHED), keys.count))
            matching = newest.filter(pc.match_substring(newest, part.encode())) if part else newest
            texts = matching[-MAX_KEYS:].to_pylist()[::-1]
            names |= dict.fromkeys(text.decode(errors="replace") for text in texts)
    return list(names)[:MAX_KEYS]


def held_back(bucket: Bucket) -> dict[str, Any]:
    """What holds the windows of the bucket back, as fields of the report of a batch: `slowest` and `waiting`."""
    state = bucket.in_memory()
    if state is None:
        return {}
    names = [stream.name for stream in bucket.plan.pipeline.inputs]
    sources_of = {name: state.progress[name].sources for name in names if name in state.progress}
    return {
        "slowest": {name: slowest(sources) for name, sources in sources_of.items() if len(sources)},
        "waiting": _waiting(state),
    }


def slowest(sources: np.ndarray) -> list[list[Any]]:
    """The MAX_SLOWEST slowest topic partitions that are not idle, slowest first, and the furthest of all."""
    if len(sources) == 1:
        return [[0, *_source(sources[0]).values()]]
    order = np.lexsort((sources["heard"], sources["watermark"]))
    slowest = order[~sources["idle"][order]][:MAX_SLOWEST].tolist()
    chosen = dict.fromkeys([*slowest, int(order[-1])])
    return [[number, *_source(sources[number]).values()] for number in chosen]


def _with_outputs(window: dict[str, Any], bucket: Bucket, state: GraphState, key: str | None) -> dict[str, Any]:
    """The window with what it would emit now, if it is a window over event time: a watermark behind all times closes
    the windows of its operator. Changes the state.
    """
    names = [operator.spec.name for operator in bucket.graph.operators]
    index = names.index(window["operator"])
    spec, remembered = bucket.graph.operators[index].spec, state.operators[index]
    if "now" in window or not _closes(spec) or remembered is None or remembered.sizes[0] > MAX_CLOSED:
        return window
    clock = Clock(state.origin, state.now)
    outputs = bucket.graph.operators[index].feed(remembered, [_end_of_time(bucket, spec.inputs[0], state.now)], clock)
    now = {}
    for output in spec.outputs:
        schema = bucket.plan.pipeline.streams[output.stream].schema
        tuples = _of_key(outputs[output.stream], key) if output.stream in outputs else None
        if tuples is not None and tuples.num_rows:
            now[output.stream] = rows(tuples.slice(0, MAX_TUPLES), schema)
    return window | ({"now": now} if now else {})


def _closes(spec: Any) -> bool:  # noqa: ANN401 - an operator
    """Whether a watermark makes the windows of this operator emit what they hold."""
    return isinstance(spec, Windowed) and spec.window.fires_at_watermarks


def _end_of_time(bucket: Bucket, stream: str, now: int) -> Items:
    """A watermark behind all times."""
    nothing = no_items(bucket.plan.pipeline.streams[stream].row_schema)
    zero = np.zeros(1, np.int64)
    kind, source, key = (np.full(1, value, dtype) for value, dtype in ((WATERMARK, "i1"), (MADE, "i4"), (-1, "i4")))
    return Items(zero, zero + now, kind, source, key, nothing.keys, nothing.tuples, zero + MAX_TIME)


def _of_key(items: Items, key: str | None) -> pa.RecordBatch:
    """The tuples with this key; all of them if they have none."""
    code = items.key[items.kind == TUPLE]
    if key is None:
        return items.tuples.filter(pa.array(code < 0))
    is_key_text = np.array([name == key.encode() for name in items.keys.to_pylist()], np.bool_)
    is_key = np.zeros(len(code), np.bool_)
    is_key[code >= 0] = is_key_text[code[code >= 0]]
    return items.tuples.filter(pa.array(is_key))


def _streams(state: GraphState) -> dict[str, Any]:
    return {
        name: {
            "watermark": _time(progress.watermark),
            "topic_partitions": [_source(source) for source in progress.sources],
        }
        for name, progress in state.progress.items()
        if progress.watermark != UNSET or len(progress.sources)
    }


def _source(source: np.void) -> dict[str, Any]:
    """A topic partition: its watermark, the operator clock when its last item came, and whether it is idle."""
    return {
        "watermark": _time(int(source["watermark"])),
        "last_item": _time(int(source["heard"])),
        "idle": bool(source["idle"]),
    }


def _waiting(state: GraphState) -> dict[str, dict[str, int]]:
    marks = {}
    for name, items in state.buffered.items():
        sources, counts = np.unique(items.source[items.kind == WINDOW], return_counts=True)
        marks[name] = dict(zip(map(str, sources.tolist()), counts.tolist(), strict=True))
    return {name: counts for name, counts in marks.items() if counts}


def _time(time: int) -> int | None:
    """A time; None if it is not set. The largest one stands for the end of all times, which is no time to show."""
    return None if time in (UNSET, MAX_TIME) else time


class Inspections:
    """The inspections of a state server: at most one at a time."""

    def __init__(self) -> None:
        self._pid = 0

    def answer(self, connection: socket.socket, bucket: Bucket | None, question: bytes) -> None:
        """Answers in a forked copy and returns at once. Does nothing without a bucket, or while another copy runs."""
        if self._pid and not os.waitpid(self._pid, os.WNOHANG)[0]:
            return
        self._pid = 0
        if bucket is None:
            return
        self._pid = os.fork()
        if not self._pid:
            _answer(connection, bucket, question)


def _answer(connection: socket.socket, bucket: Bucket, question: bytes) -> None:
    """Writes the answer and ends the process. A larger answer than MAX_ANSWER is written without its windows."""
    try:
        call_limit.leave_timer()
        signal.alarm(INSPECTION_S)
        kept = connection.fileno()
        os.closerange(3, kept)  # a copy that stays open would hide a close by the original
        os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
        os.nice(NICE)
        answer = inspect_bucket(bucket, json.loads(question))
        body = text_with_digits(answer, COMPACT).encode()
        if len(body) > MAX_ANSWER:
            answer["windows"], answer["too_large"] = [], True
            body = text_with_digits(answer, COMPACT).encode()
        connection.settimeout(INSPECTION_S)
        Message((), [body]).write(connection.sendall)
    finally:
        os._exit(0)


def inspect(query: str, bucket: int, question: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer of a bucket's state server. None if there is no such server yet, or if it does not answer in time."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs, suppress(OSError):
            Message((bucket, INSPECTION), [json.dumps(question).encode()]).write(ours.sendall)
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MAX_ANSWER)
            send_inspection(query, bucket, theirs, MAX_DELAY_S)
        ours.settimeout(INSPECTION_S + MAX_DELAY_S)
        with suppress(OSError, EOFError, ValueError), ours.makefile("rb") as file:
            (body,) = Message.read(file).bodies
            return with_digits(bytes(body))  # type: ignore[no-any-return]
    return None


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
    columns = [shown_values(tuples.column(name), type_) for name, type_ in schema]
    return [dict(zip(tuples.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def shortened(window: Mapping[str, Any], most: int) -> dict[str, Any]:
    """The JSON object of a window partition with at most the last `most` tuples of each list.

    `left_out` is the number of tuples that the window holds and the object does not have.
    """
    short = dict(window)
    held = short.get("held", [])
    if len(held) > most:
        short |= {"held": held[-most:], "left_out": len(held) - most}
    if "now" in short:
        short["now"] = {stream: list(islice(tuples, most)) for stream, tuples in short["now"].items()}
    policy = short.get("policy", {})
    if policy:
        short["policy"] = {name: v[-most:] if isinstance(v, list) else v for name, v in policy.items()}
    return short


def _clause(pipeline: Pipeline, name: str, side: str) -> str:
    operator = next(operator for operator in pipeline.operators if operator.name == name)
    if isinstance(operator, Join):
        if operator.window is not None:
            return operator.window.clause()
        return {"left": operator.left, "right": operator.right}[side].window.clause()
    if isinstance(operator, Dedup):
        return operator.clause
    if isinstance(operator, InWords):
        return "; ".join(operator.clauses)
    return "" if isinstance(operator, Map | Union) else operator.window.clause()

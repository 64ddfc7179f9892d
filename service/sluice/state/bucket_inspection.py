"""The inspection of a bucket: its clock, its watermarks by topic partition, its sizes, and the windows of a key.

The state server of the bucket computes it in a forked copy of itself (state/server/inspection_request.py), which ends
afterwards. So the state may be changed here: what windows over event time would emit now is found by closing them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.interner import Interner
from sluice.engine.graph import Clock, GraphState, no_items
from sluice.engine.stream.items import MADE, MAX_TIME, TUPLE, WATERMARK, WINDOW, Items
from sluice.model.spec import Windowed
from sluice.state.bucket import Bucket
from sluice.state.window_json import rows, shortened, shown
from sluice.time_units import UNSET

#: maximum number of tuples of each list of a window, and of windows of a key
MAX_TUPLES, MAX_WINDOWS = 50, 50
#: keys that an answer has, and the newest keys of each operator among which they are searched
MAX_KEYS, MAX_SEARCHED = 20, 200_000
#: the topic partitions of a stream in the report of a batch, beside the furthest one
MAX_SLOWEST = 3
#: an operator with more window partitions than this is not closed to find what its windows would emit now
MAX_CLOSED = 50_000


def inspect_bucket(bucket: Bucket, question: Mapping[str, Any]) -> dict[str, Any]:
    """The answer as values of JSON. `question["key"]`, if it is given, is the key whose windows the answer has; null:
    windows without keys.

    clock     the operator clock; null if it has not started. All times are nanoseconds since 1970
    due       when the clock alone causes the next output; null if it does not
    held      bytes of the state after the last batch
    streams   by stream with event time: its watermark (null: none yet) and its topic partitions
    finals    by input stream: the topic partitions that have sent their final mark
    waiting   by stream with aligned marks: the number of marks of each topic partition that wait for those of others
    sizes     by operator: the numbers of its window partitions and of the tuples in them
    keys      the newest keys of window partitions, of those that contain the text `question["keys"]` if it is given
    windows   the windows of the key, and windows without keys (state/window_json.py)
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
        found = bucket.graph.inspect(state, question["key"])
        pipeline = bucket.plan.pipeline
        windows = [
            shortened(shown(pipeline, question["key"], state.now, window), MAX_TUPLES) for window in found[:MAX_WINDOWS]
        ]
        answer["windows"] = [_with_outputs(window, bucket, state, question["key"]) for window in windows]
    return answer


def known_keys(state: GraphState, part: str) -> list[str]:
    """The newest keys of window partitions that contain a text, newest first, at most MAX_KEYS. Of each operator the
    MAX_SEARCHED newest keys are searched, so the cost has a bound.
    """
    found: dict[str, None] = {}
    for remembered in state.operators:
        keys = getattr(getattr(remembered, "windows", remembered), "keys", None)
        if isinstance(keys, Interner):
            newest = keys.take(np.arange(max(0, keys.count - MAX_SEARCHED), keys.count))
            matching = newest.filter(pc.match_substring(newest, part.encode())) if part else newest
            texts = matching[-MAX_KEYS:].to_pylist()[::-1]
            found |= dict.fromkeys(text.decode(errors="replace") for text in texts)
    return list(found)[:MAX_KEYS]


def held_back(bucket: Bucket) -> dict[str, Any]:
    """What holds the windows of the bucket back, as fields of the report of a batch: `slowest` and `waiting`."""
    state = bucket.in_memory()
    if state is None:
        return {}
    names = [stream.name for stream in bucket.plan.pipeline.inputs]
    known = {name: state.progress[name].sources for name in names if name in state.progress}
    return {
        "slowest": {name: slowest(sources) for name, sources in known.items() if len(sources)},
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
    made = bucket.graph.operators[index].feed(remembered, [_end_of_time(bucket, spec.inputs[0], state.now)], clock)
    now = {}
    for output in spec.outputs:
        schema = bucket.plan.pipeline.streams[output.stream].schema
        tuples = _of_key(made[output.stream], key) if output.stream in made else None
        if tuples is not None and tuples.num_rows:
            now[output.stream] = rows(tuples.slice(0, MAX_TUPLES), schema)
    return window | ({"now": now} if now else {})


def _closes(spec: Any) -> bool:  # noqa: ANN401 - an operator
    """Whether a watermark makes the windows of this operator emit what they hold."""
    return isinstance(spec, Windowed) and spec.window.fires_at_watermarks


def _end_of_time(bucket: Bucket, stream: str, now: int) -> Items:
    """A watermark behind all times."""
    none = no_items(bucket.plan.pipeline.streams[stream].row_schema)
    one = np.zeros(1, np.int64)
    kind, source, key = (np.full(1, value, dtype) for value, dtype in ((WATERMARK, "i1"), (MADE, "i4"), (-1, "i4")))
    return Items(one, one + now, kind, source, key, none.keys, none.tuples, one + MAX_TIME)


def _of_key(items: Items, key: str | None) -> pa.RecordBatch:
    """The tuples with this key; all of them if they have none."""
    code = items.key[items.kind == TUPLE]
    if key is None:
        return items.tuples.filter(pa.array(code < 0))
    known = np.array([one == key.encode() for one in items.keys.to_pylist()], np.bool_)
    own = np.zeros(len(code), np.bool_)
    own[code >= 0] = known[code[code >= 0]]
    return items.tuples.filter(pa.array(own))


def _streams(state: GraphState) -> dict[str, Any]:
    return {
        name: {"watermark": _time(progress.watermark), "topic_partitions": [_source(one) for one in progress.sources]}
        for name, progress in state.progress.items()
        if progress.watermark != UNSET or len(progress.sources)
    }


def _source(one: np.void) -> dict[str, Any]:
    """A topic partition: its watermark, the operator clock when its last item came, and whether it is idle."""
    return {
        "watermark": _time(int(one["watermark"])), "last_item": _time(int(one["heard"])), "idle": bool(one["idle"]),
    }  # fmt: skip


def _waiting(state: GraphState) -> dict[str, dict[str, int]]:
    found = {}
    for name, items in state.buffered.items():
        sources, counts = np.unique(items.source[items.kind == WINDOW], return_counts=True)
        found[name] = dict(zip(map(str, sources.tolist()), counts.tolist(), strict=True))
    return {name: counts for name, counts in found.items() if counts}


def _time(time: int) -> int | None:
    """A time; None if it is not set. The largest one stands for the end of all times, which is no time to show."""
    return None if time in (UNSET, MAX_TIME) else time

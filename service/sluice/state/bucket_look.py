"""What a look into a bucket shows: its clock, its watermarks by topic partition, its sizes, and the windows of a key.

The state server of the bucket computes it in a forked copy of itself (state/server/look.py), so nothing here can
change the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sluice.engine.graph import GraphState
from sluice.engine.stream.items import MAX_TIME, WINDOW
from sluice.state.bucket import Bucket
from sluice.state.window_json import shortened, shown
from sluice.time_units import UNSET

#: maximum number of tuples of each list of a window, and of windows of a key
MAX_TUPLES, MAX_WINDOWS = 50, 50


def look(bucket: Bucket, question: Mapping[str, Any]) -> dict[str, Any]:
    """The answer as values of JSON. `question["key"]`, if it is there, asks for the windows of a key; null is no key.

    clock     the operator clock; null if it has not started. All times are nanoseconds since 1970
    due       when the clock alone causes the next output; null if it does not
    held      bytes of the state after the last batch
    streams   by stream with event time: its watermark (null: none yet) and its topic partitions
    finals    by input stream: the topic partitions that have sent their final mark
    waiting   by stream with aligned marks: the number of marks of each topic partition that wait for those of others
    sizes     by operator: the numbers of its window partitions and of its stored tuples
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
    }  # fmt: skip
    if "key" in question:
        found = bucket.graph.inspect(state, question["key"])
        pipeline = bucket.plan.pipeline
        answer["windows"] = [
            shortened(shown(pipeline, question["key"], state.now, window), MAX_TUPLES) for window in found[:MAX_WINDOWS]
        ]
    return answer


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
    return found


def _time(time: int) -> int | None:
    """A time; None if it is not set. The largest one stands for the end of all times, which is no time to show."""
    return None if time in (UNSET, MAX_TIME) else time

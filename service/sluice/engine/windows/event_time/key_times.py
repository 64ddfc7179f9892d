"""The times of keys, where each key has its own (KT1 to KT5): what panes and sessions have in common.

The tuples of a key move its watermark. The clock closes the windows of a key that is idle, or forgotten: all keys of
one instant get a goal, and the kernel of the windows fires what is due by it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sluice.columns.due_times import later
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import inlined
from sluice.columns.state_tables import Table
from sluice.engine.stream.items import TUPLE
from sluice.engine.windows import early_results
from sluice.engine.windows.early_results import EarlyPolicy, EarlyResults
from sluice.engine.windows.event_time.event_records import ENDLESS, KEY_MARK, KEY_TIME, NEVER, KeyTimes
from sluice.engine.windows.event_time.event_ticks import Ticks
from sluice.model.spec import EventTime, KeyTime

#: the goal of a key that is forgotten
FORGOTTEN = ENDLESS - 1


# ---- the state ------------------------------------------------------------------------------------------------------


class KeyTimesState:
    """The part of a state that has the times of keys. The queues follow from the tables. `instant` has an element: the
    time at which the clock closes windows of keys, while a batch runs; NEVER between batches.
    """

    key_times: np.ndarray
    idles: np.ndarray
    forgets: np.ndarray
    idle_queue: np.ndarray
    forget_queue: np.ndarray
    instant: np.ndarray


def tables() -> dict[str, Table]:
    """The times of keys, and the keys that wait until they are idle, and until they are forgotten."""
    unset = dict.fromkeys(("watermark", "made", "drop", "goal"), NEVER)
    return {
        "key_times": Table("partition", KEY_TIME, fresh=unset),
        "idles": early_results.table("partition"),
        "forgets": early_results.table("partition"),
    }


def needed(settings: KeyTime | None) -> Mapping[str, bool]:
    """Which of the tables a window needs whose keys have these times of their own; None: it needs none."""
    keyed, idle_after = settings is not None, None if settings is None else settings.idle_after
    return {"key_times": keyed, "idles": idle_after is not None, "forgets": keyed}


def queue(state: KeyTimesState) -> None:
    """Builds what is not saved."""
    state.instant = np.full(1, NEVER, np.int64)
    state.idle_queue, state.forget_queue = early_results.queue_of(state.idles), early_results.queue_of(state.forgets)


def next_due(state: KeyTimesState) -> int:
    """The operator clock at which the next key is idle or forgotten (KT3, KT4)."""
    queues = ((state.idles, state.idle_queue), (state.forgets, state.forget_queue))
    return min(early_results.next_due(*waiting) for waiting in queues)


def shown(state: KeyTimesState, p: int, ticks: Ticks) -> dict[str, float]:
    """A field of the inspection of a window partition: the `watermark` of its key in seconds; empty if it has none."""
    watermark = int(state.key_times["watermark"][p]) if len(state.key_times) else NEVER
    return {} if watermark == NEVER else {"watermark": float(ticks.seconds(watermark))}


def of_batch(
    state: KeyTimesState, event_time: EventTime | None, ticks: Ticks, arrivals: np.ndarray, *, dated: bool = False
) -> KeyTimes:
    """The tables that the kernels read, with the watermark that each tuple gives its key (KT2). `dated`: see Grid of
    panes.py.
    """
    settings = event_time.per_key if event_time is not None else None
    marks = np.zeros(0 if settings is None else len(arrivals), KEY_MARK)
    if settings is not None and event_time is not None:
        tuples = arrivals["kind"] == TUPLE
        watermarks = ticks.to_units(arrivals["time"][tuples]) * event_time.tick - settings.lag
        marks["made"][tuples], marks["watermark"][tuples] = watermarks, ticks.of_watermarks(watermarks)
        if dated:
            marks["aged"][tuples] = ticks.aged(arrivals["time"][tuples])
    idle, forgotten = (settings.idle_after, settings.forget_after) if settings else (None, None)
    return KeyTimes(
        state.key_times, marks, _waits(idle, state.idles, state.idle_queue),
        _waits(forgotten, state.forgets, state.forget_queue), settings.minimum_gap if settings else 0, state.instant,
    )  # fmt: skip


def _waits(time: int | None, windows: np.ndarray, ends: np.ndarray) -> EarlyResults:
    """A queue of keys that wait for so many nanoseconds; None: none waits."""
    return EarlyResults(EarlyPolicy(wanted=time is not None, every=0, wait=time or 0), windows, ends)


# ---- the tuples of a key --------------------------------------------------------------------------------------------


@inlined
def wait_anew(k: KeyTimes, p: int, at: int) -> None:
    """The waits of a key begin anew with each tuple (KT3, KT4)."""
    _wait_in(k.idle, p, at)
    _wait_in(k.forgotten, p, at)


@inlined
def _wait_in(waiting: EarlyResults, p: int, at: int) -> None:
    if waiting.policy.wait > 0:
        early_results.start_again(waiting, p)
        early_results.count_tuple(waiting, p, p, at)


@inlined
def gives_watermark(k: KeyTimes, p: int, i: int) -> bool:
    """Whether item `i`, a tuple, is newer than all others of its key, by the distance of two watermarks (E3)."""
    newest, before = k.marks[i].made, k.times[p].made
    return newest > before and (before == NEVER or newest >= later(before, k.gap))  # type: ignore[no-any-return]


@inlined
def advance(k: KeyTimes, p: int, i: int) -> None:
    """The key gets the watermark of item `i`. What it completes has fired."""
    k.times[p].watermark = k.marks[i].watermark
    k.times[p].epoch += 1


# ---- the clock ------------------------------------------------------------------------------------------------------


@inlined
def next_instant(k: KeyTimes, now: int) -> int:
    """The next time by `now` at which a key is idle or forgotten; ENDLESS if there is none."""
    idle, forgotten, due = early_results.due_by(k.idle, now), early_results.due_by(k.forgotten, now), ENDLESS
    if idle != NIL:
        due = k.idle.windows[idle].due
    if forgotten != NIL:
        due = min(due, k.forgotten.windows[forgotten].due)
    return due


@inlined
def next_waiting(waiting: EarlyResults, instant: int) -> int:
    """A key whose wait is over at this instant, which ends; NIL if there is none."""
    p = early_results.due_by(waiting, instant)
    if p != NIL:
        early_results.start_again(waiting, p)
    return p


@inlined
def reach_goal(k: KeyTimes, p: int) -> bool:
    """The key has reached its goal. Returns whether it is forgotten."""
    k.times[p].watermark = k.times[p].goal
    k.times[p].epoch += 1
    if k.times[p].goal != FORGOTTEN:
        return False
    k.times[p].watermark = k.times[p].made = NEVER
    return True

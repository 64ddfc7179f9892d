"""The queue of windows that wait for an early result."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.columns.intrusive_list import NIL
from sluice.engine.windows import early_results
from sluice.engine.windows.early_results import NOT_WAITING, EarlyPolicy, EarlyResults
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player
from sluice.testing import pipeline_of

WAIT = 10


def results(*, every: int = 0, wait: int = WAIT, windows: int = 4) -> EarlyResults:
    table = early_results.table("window").rows(windows)
    return EarlyResults(EarlyPolicy(True, every, wait), table, early_results.queue_of(table))  # noqa: FBT003


def waiting(e: EarlyResults, now: int = NOT_WAITING - 1) -> list[int]:
    """The windows that are due by `now`, in order. They are taken out of the queue."""
    found = []
    while (window := early_results.due_by(e, now)) != NIL:
        found.append(int(window))
        early_results.start_again(e, window)
    return found


def due(e: EarlyResults) -> int:
    return early_results.next_due(e.windows, e.queue)


def test_a_window_is_due_a_wait_after_its_first_tuple():
    e = results()
    for window, at in ((2, 5), (0, 6), (2, 9)):
        assert not early_results.count_tuple(e, window, 7, at)
    assert due(e) == 15
    assert (early_results.due_by(e, 14), early_results.due_by(e, 15)) == (NIL, 2)
    assert e.windows["partition"].tolist() == [7, 0, 7, 0]
    assert waiting(e) == [2, 0]


def test_windows_are_due_in_the_order_in_which_their_waits_began():
    e = results()
    for window, at in ((3, 1), (1, 1), (0, 2), (3, 3)):
        early_results.count_tuple(e, window, 0, at)
    assert waiting(e, now=11) == [3, 1]
    assert waiting(e, now=12) == [0]


def test_a_result_ends_the_wait():
    e = results()
    for window, at in ((0, 1), (1, 2)):
        early_results.count_tuple(e, window, 0, at)
    early_results.start_again(e, 0)
    assert due(e) == 12
    early_results.start_again(e, 1)
    assert due(e) == NOT_WAITING
    early_results.count_tuple(e, 0, 0, 5)
    assert due(e) == 15


@pytest.mark.parametrize(("every", "expected"), [(1, [True, True, True, True]), (3, [False, False, True, False])])
def test_every_so_many_tuples_are_a_result(every: int, expected: list[bool]):
    e, found = results(every=every, wait=0), []
    for at in range(4):
        found.append(bool(early_results.count_tuple(e, 1, 0, at)))
        if found[-1]:
            early_results.start_again(e, 1)
    assert found == expected
    assert due(e) == NOT_WAITING


@pytest.mark.parametrize(
    ("tuples", "order"),
    [
        ({0: 1, 1: 2, 2: 3}, [0, 1]),
        ({1: 1, 2: 2, 0: 3}, [1, 0]),
        ({2: 1, 1: 2, 0: 3}, [0, 1]),
        ({2: 1, 1: 2}, [0, 1]),
        ({1: 1, 0: 2}, [1, 0]),
        ({1: 1}, [1]),
    ],
    ids=[
        "its own wait is older",
        "in between",
        "the other wait is older",
        "only the other waits",
        "only it waits",
        "none",
    ],
)
def test_merged_windows_keep_the_wait_that_began_first(tuples: dict[int, int], order: list[int]):
    """Window 2 is merged into window 0; window 1 stays."""
    e = results()
    for window, at in tuples.items():
        early_results.count_tuple(e, window, 0, at)
    early_results.take_over(e, 0, 2)
    assert e.windows["tuples"].tolist() == [(0 in tuples) + (2 in tuples), int(1 in tuples), 0, 0]
    first = min((at for window, at in tuples.items() if window != 1), default=None)
    assert e.windows["due"][0] == (NOT_WAITING if first is None else first + WAIT)
    assert waiting(e) == order


TIMED = {"event_time": "t", "schema": {"k": "string", "t": "float64"}}


@pytest.mark.parametrize(
    "window",
    [
        {"window": "tumbling, count(9), partitioned"},
        {"window": "timeInterval, intervalDuration(10), partitioned", **TIMED},
        {"window": "session, inactivityGap(5)", **TIMED},
    ],
    ids=["tumbling", "panes", "sessions"],
)
def test_an_inspection_of_a_window_shows_when_its_early_result_is_due(window: dict[str, Any]):
    """Of several panes and sessions, the first one counts. After the early result nothing is due."""
    operator = {"partition_by": ["k"], "output": {"n": "Count()"}, "early": "time(3)"} | window
    tuples = [(0, "a", 1.0), (1, "b", 2.0), (2, "a", 21.0)]
    events = [*({"at": at, "tuple": {"k": k, "t": t}} for at, k, t in tuples), {"at": 9}]
    pipeline = pipeline_of({"operator": operator, "input": events})
    player, cutter, found = Player(pipeline, {"input": 1}), Cutter(pipeline.inputs), []
    state = player.graph.initial()
    for batch in cutter.batches(list(numbered(events)), 3):
        list(player.feed(state, batch))
        inspections = [player.graph.inspect(state, key)[0].policy for key in "ab"]
        found.append([one.get("early_due") for one in inspections])
    assert found == [[3.0, 4.0], [None, None]]


def test_the_queue_follows_from_the_due_times():
    e = results()
    for window, at in ((3, 1), (0, 4), (1, 2)):
        early_results.count_tuple(e, window, 0, at)
    e.windows["older"] = e.windows["younger"] = 99  # saved states have links of other row numbers
    again = e._replace(queue=early_results.queue_of(e.windows))
    assert waiting(again) == [3, 1, 0]

"""Topic partitions that send nothing: idle_after says for how long they hold the watermark back. With advance, the
watermark of a stream that is silent as a whole follows the clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.load import load_text
from sluice.engine.windows.event_time.watermark_tracker import STEPS, step_offset
from sluice.model.spec import Pipeline
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered, topic_partitions
from sluice.replayer.player import Player, with_origin
from tests.spec import event_oracle
from tests.spec.oracle import Stored
from tests.unit.replayer.test_player import briefly, everything

FILE = """
pipeline: idle
streams:
  in: {topic: in, schema: {x: int64, t: float64}, event_time: {attribute: t, idle_after: 3}}
  out: {topic: out}
operators:
  - name: panes
    aggregate: in
    window: timeInterval, intervalDuration(10)
    output: {out: {xs: Collect(x)}}
"""


def row(at, x, t, source):
    return {"at": at, "tuple": {"x": x, "t": t}, "topic_partition": source}


def final(at, source):
    return {"at": at, "punct": "final", "topic_partition": source}


def mark(at, t, source):
    return {"at": at, "watermark": t, "topic_partition": source}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [row(0, 1, 5, 0), row(0, 2, 6, 1), mark(1, 10, 0), {"at": 2.9}],
            [],
            id="one that sent something lately holds the watermark back",
        ),
        pytest.param(
            [row(0, 1, 5, 0), row(0, 2, 6, 1), mark(1, 10, 0), {"at": 3}],
            ["3 out [1, 2]", "3 out window"],
            id="not once it is idle",
        ),
        pytest.param(
            [row(0, 1, 5, 0), mark(1, 10, 0), row(2.5, 3, 7, 1), {"at": 5.4}, row(5.4, 4, 8, 0), {"at": 5.5}],
            ["5 out [1, 3, 4]", "5 out window"],
            id="what it sends lets the time begin anew",
        ),
        pytest.param(
            [row(0, 1, 5, 0), mark(0, 10, 0), row(0, 2, 6, 1), {"at": 3}],
            ["3 out [1, 2]", "3 out window"],
            id="where all are idle, the greatest watermark counts",
        ),
        pytest.param(
            [row(0, 1, 5, 0), mark(0, 9, 1), final(1, 1), mark(2, 10, 0), {"at": 2.9}],
            [],
            id="one that is final holds the watermark back",
        ),
        pytest.param(
            [row(0, 1, 5, 0), mark(0, 9, 1), final(1, 1), mark(2, 10, 0), {"at": 3}],
            ["4 out [1]", "4 out window"],
            id="until it is idle, counted from its last item before the final mark",
        ),
    ],
)
def test_idle_topic_partitions(events, expected):
    assert briefly(everything(load_text(FILE, "idle"), events)) == expected


# ---- a stream that is silent as a whole ------------------------------------------------------------------------------

QUIET = """
pipeline: quiet
streams:
  in:
    topic: in
    schema: {x: int64, t: float64}
    event_time: {attribute: t, lag: 1, minimum_gap: 0.5, idle_after: 3, advance: %s}
  out: {topic: out}
operators:
  - name: panes
    aggregate: in
    window: %s
    output: {out: {xs: Collect(x)}}
"""
PANES, AROUND = "timeInterval, intervalDuration(10)", "slidingTime, timeDifference(2), grace(1)"
SESSIONS = "session, inactivityGap(4)"


def quiet(window: str, events: list[dict[str, Any]], advance: str = "true") -> list[str]:
    found = everything(load_text(QUIET % (advance, window), "quiet"), events)
    late = [f"{record['after']} late" for record in found if "dead_letter" in record]
    return briefly([record for record in found if "stream" in record]) + late


@pytest.mark.parametrize(
    ("window", "events", "expected"),
    [
        pytest.param(PANES, [row(6, 1, 6, 0), {"at": 10.9}], [], id="a pane is open until lag after its end"),
        pytest.param(PANES, [row(6, 1, 6, 0), {"at": 11}], ["1 out [1]", "1 out window"], id="then it closes"),
        pytest.param(
            PANES, [row(6, 1, 6, 0), row(8.5, 2, 7, 0), {"at": 11.4}, {"at": 11.5}],
            ["3 out [1, 2]", "3 out window"], id="a tuple begins the silence anew",
        ),
        pytest.param(
            PANES, [row(6, 1, 6, 0), {"at": 30}, row(30, 2, 9, 0)],
            ["1 out [1]", "1 out window", "2 late"], id="what comes behind the watermark is late",
        ),
        pytest.param(
            SESSIONS, [row(6, 1, 6, 0), {"at": 11.4}, {"at": 11.5}],
            ["2 out [1]", "2 out window"], id="sessions",
        ),
        pytest.param(
            AROUND, [row(6, 1, 6, 0), {"at": 8.9}, {"at": 9}], ["2 out [1]", "2 out window"],
            id="slidingTime: the stream time follows",
        ),
        pytest.param(PANES, [{"at": 0}, {"at": 50}, row(51, 1, 2, 0)], [], id="no watermark before the first tuple"),
    ],
)  # fmt: skip
def test_a_quiet_stream_closes_its_windows(window: str, events: list[dict[str, Any]], expected: list[str]):
    assert quiet(window, events) == expected
    assert quiet(window, events, "false") == []


FUTURE = QUIET.replace("lag: 1,", "lag: 1, max_future: 5,") % ("true", PANES)


@pytest.mark.parametrize(
    ("event", "ends"),
    [
        pytest.param(row(10, 3, 6, 0), True, id="a tuple"),
        pytest.param({"at": 10, "punct": "window"}, True, id="a window mark"),
        pytest.param(mark(10, 1, 0), True, id="a watermark"),
        pytest.param({"at": 10}, False, id="not the clock"),
        pytest.param({"at": 10, "punct": "final"}, False, id="not the final mark of one of two topic partitions"),
        pytest.param(row(10, 3, 50, 0), False, id="not a tuple too far in the future"),
    ],
)
def test_what_ends_a_silence(event: dict[str, Any], ends: bool):  # noqa: FBT001
    """Q4. A silence since 8 closes the pane at 11, after `idle_after`; one since 10 does so at 13."""
    events = [row(8, 1, 6, 0), row(8, 2, 6, 1), event, {"at": 11}, {"at": 13}]
    found = everything(load_text(FUTURE, "future"), events)
    assert [record["after"] for record in found if "punct" in record] == [4 if ends else 3]


@pytest.mark.parametrize(
    ("time", "ahead"),
    [
        ("15.0", False),
        ("15.000000001", True),
        ("9.2e9", True),
        ("9.3e9", True),  # 64-bit nanoseconds end before
        ("1e300", True),
        ("Infinity", True),
        ("-Infinity", False),
        ("-9.3e9", False),
        ("NaN", False),
    ],
)
def test_a_time_ahead_of_the_clock_is_a_dead_letter(time: str, ahead: bool):  # noqa: FBT001
    """max_future, of a stream that a map reads, which takes every time."""
    file = FILE.replace("idle_after: 3", "max_future: 5").partition("  - name: panes")[0]
    file += "  - {name: pass, map: in, output: {out: {x: x}}}"
    (record,) = everything(load_text(file, "future"), [row(10, 1, float(time), 0)])
    if ahead:
        assert record["dead_letter"]["reason"] == "too far ahead: t is more than 5 s ahead of the clock"
    else:
        assert record["tuple"] == {"x": 1}


def test_steps_become_longer_as_the_silence_does():
    offsets = [step_offset(7, number) for number in range(5 * STEPS)]
    assert offsets[: STEPS + 2] == [7 * number for number in range(STEPS + 1)] + [7 * (STEPS + 2)]
    lengths = [after - before for before, after in pairwise(offsets)]
    assert lengths == sorted(lengths)
    assert all(length <= max(7, 2 * before / STEPS) for before, length in zip(offsets, lengths, strict=False))


def watermarks(events: list[dict[str, Any]]) -> Iterator[tuple[int, float | dict[str, Any]]]:
    """The watermarks (seconds) of the stream and its tuples, each with the number of its event: all moments at which a
    watermark may change are tried, one after the other.
    """
    heard, made, idle, now, watermark = {0: 0.0, 1: 0.0}, dict.fromkeys((0, 1), -math.inf), set[int](), 0.0, -math.inf
    for number, event in enumerate(events):
        moments = {at + 3 for at in heard.values()}
        moments |= {max(heard.values()) + 3 + step_offset(500, step) / 1000 for step in range(300)}
        for moment in sorted(one for one in moments if now < one <= event["at"] or (number == 0 and one == now)):
            idle |= {source for source, at in heard.items() if at + 3 <= moment}
            least = min((made[source] for source in heard if source not in idle), default=max(made.values()))
            # ET4: what makes the last topic partition idle also lets the clock count, at the same instant
            follows = moment - 1 if len(idle) == len(heard) and max(least, watermark) > -math.inf else -math.inf
            if max(least, follows) > watermark:
                watermark = max(least, follows)
                yield number, watermark
        now = event["at"]
        if "tuple" in event:
            source, time = event["topic_partition"], event["tuple"]["t"] - 1
            heard[source] = now
            idle.discard(source)
            yield number, event["tuple"]
            if time > made[source] and (made[source] == -math.inf or time - made[source] >= 0.5):
                made[source] = time
            least = min(made[one] for one in heard if one not in idle)
            if least > watermark:
                watermark = least
                yield number, watermark


def simulated(window: str, events: list[dict[str, Any]]) -> list[tuple[int, list[int]]]:
    """The event and the tuples of each pane that fires."""
    panes, found = event_oracle.window({"window": window}), []
    for number, one in watermarks(events):
        if isinstance(one, dict):
            panes.insert((), round(one["t"] * 1000), Stored(one, number, 0))
        else:
            found += [(number, [stored.values["x"] for stored in firing.content])
                      for firing in panes.advance(math.floor(one * 1000))]  # fmt: skip
    return found


def played(pipeline: Pipeline, events: list[dict[str, Any]], size: int) -> Iterator[dict[str, Any]]:
    """The records of the engine, whose state is saved and loaded after each batch of `size` events."""
    player = Player(pipeline, topic_partitions(list(numbered(events)), [stream.name for stream in pipeline.inputs]))
    state = player.graph.initial()
    for batch in Cutter(pipeline.inputs).batches(list(numbered(events)), size):
        yield from player.feed(state, batch)
        state = player.graph.load(player.graph.save(state))


@st.composite
def silences(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Tuples in two topic partitions, with pauses that idle_after is shorter than, or not."""
    at, found = 0.0, [{"at": 0.0, "topic_partition": 1}]
    for number in range(draw(st.integers(1, 12))):
        at += draw(st.sampled_from([0.0, 0.5, 1.0, 2.5, 3.0, 3.5, 6.0, 20.0, 130.0]))
        event: dict[str, Any] = {"at": at, "topic_partition": draw(st.integers(0, 1))}
        if draw(st.integers(0, 3)):
            event["tuple"] = {"x": number, "t": at - draw(st.sampled_from([0.0, 0.0, 0.5, 2.0, 9.0]))}
        found.append(event)
    return found


@given(silences(), st.sampled_from(["", ", discardAge(4)", ", creationPeriod(4)"]))
@settings(max_examples=90, derandomize=True, deadline=None)
def test_any_silence(events: list[dict[str, Any]], more: str):
    pipeline = with_origin(load_text(QUIET % ("true", PANES + more), "quiet"), None)
    expected = simulated(PANES + more, events)
    for size in (1, 2, len(events)):
        records = played(pipeline, events, size)
        panes = [(record["after"], record["tuple"]["xs"]) for record in records if "tuple" in record]
        assert panes == expected, f"in batches of {size}"


TWO_TOPIC_PARTITIONS = """
pipeline: two
streams:
  in:
    topic: in
    schema: {k: string, t: float64}
    event_time: {attribute: t, lag: 1, idle_after: 3, advance: true}
  out: {topic: out}
operators:
  - name: around
    aggregate: in
    window: slidingTime, timeDifference(2)
    partition_by: [k]
    output: {out: {k: k, end: intervalEnd(), n: Count()}}
"""


def test_a_watermark_of_the_clock_closes_sliding_times_by_topic_partition_then_end_then_key():
    """Q5. All windows end at 6, so without the topic partitions they would be in order of their keys."""
    rows = [("c", 0), ("d", 0), ("a", 1), ("b", 1)]
    events = [{"at": 6, "tuple": {"k": k, "t": 6.0}, "topic_partition": source} for k, source in rows]
    found = everything(load_text(TWO_TOPIC_PARTITIONS, "two"), [*events, {"at": 30}])
    assert [record["tuple"]["k"] for record in found if "tuple" in record] == ["c", "d", "a", "b"]


FINAL_SIDE = """
pipeline: sides
streams:
  l: {topic: l, schema: {t: float64}, event_time: {attribute: t, lag: 0, idle_after: 3, advance: true}}
  r: {topic: r, schema: {u: float64}, event_time: {attribute: u, lag: 0, idle_after: 3, advance: true}}
  pairs: {event_time: t}
  out: {topic: out}
operators:
  - {name: j, join: {left: l, right: r}, %s, output: {pairs: {t: t}}}
  - {name: panes, aggregate: pairs, window: "timeInterval, intervalDuration(10)", output: {out: {n: Count()}}}
"""
PAIR = [{"at": 5, "stream": "l", "tuple": {"t": 5.0}}, {"at": 5, "stream": "r", "tuple": {"u": 5.0}}]


@pytest.mark.parametrize("side", ["l", "r"])
@pytest.mark.parametrize(
    "window",
    [
        "window: 'interval, before(0), after(0)'",
        "window: asOf",
        "window_left: 'sliding, count(1)', window_right: 'sliding, count(1)'",
    ],
)
@pytest.mark.parametrize("size", [1, 9])
def test_the_watermark_of_a_join_follows_the_clock_after_the_final_mark_of_a_side(window: str, side: str, size: int):
    """I8. The side is idle from 8 on; 10 is the first step at which the pane closes."""
    pipeline = load_text(FINAL_SIDE % window, "sides")
    events = [*PAIR, {"at": 6, "stream": side, "punct": "final"}, {"at": 9.5}, {"at": 40}]
    records = [record for record in played(pipeline, events, size) if "tuple" in record]
    assert [(record["after"], record["tuple"]) for record in records] == [(4, {"n": 1})]


OUTER = (FINAL_SIDE % "window: 'interval, before(0), after(0)'").partition("  - {name: panes")[0]
OUTER = OUTER.replace("pairs: {event_time: t}\n  out: {topic: out}", "pairs: {topic: out}")
OUTER = OUTER.replace("output:", "algorithm: leftOuter, output:")


@pytest.mark.parametrize("size", [1, 9])
@pytest.mark.parametrize(
    ("finals", "expected"), [("l", [(3, "tuple")]), ("lr", [(3, "punct")])], ids=["of one side", "of both"]
)
def test_an_unmatched_tuple_leaves_unless_the_join_is_final(finals: str, expected: list[tuple[int, str]], size: int):
    """P14. Both sides are idle from 8 and 9 on; the tuple is left alone at the first step after."""
    pipeline = load_text(OUTER, "outer")
    marks = [{"at": 6, "stream": side, "punct": "final"} for side in finals]
    events = [PAIR[0], {"at": 5, "stream": "r", "tuple": {"u": 4.0}}, *marks, {"at": 40}]
    records = [record for record in played(pipeline, events, size) if record.get("stream") == "pairs"]
    assert [(record["after"], "tuple" if "tuple" in record else "punct") for record in records] == expected

"""The summary of a replay: what came in and out, and why an operator wrote nothing."""

import pytest

from sluice.config.load import load_text
from sluice.replayer.player import replay

PIPELINE = """
pipeline: one
streams:
  in: {{topic: in, schema: {{x: int64, t: timestamp}}, event_time: {event_time}, marks_in: topic_partition}}
  out: {{topic: out}}
operators:
  - {{name: only, {operator}, output: {{out: {{n: {n}}}}}}}
"""
TUPLES = [{"at": at, "tuple": {"x": at, "t": at}} for at in range(5)]


def summary(operator, events=TUPLES, n="Count()", event_time="{attribute: t}"):
    text = PIPELINE.format(operator=operator, n=n, event_time=event_time)
    lines = []
    for _ in replay(load_text(text, "p.yaml"), events, ended=lines.append):
        pass
    return lines


WINDOW = "timeInterval, intervalDuration(60)"
SILENT = {
    "tumbling, punct()": "no window mark came; it still holds 5 tuples",
    "tumbling, count(6)": "no window got 6 tuples; it still holds 5 tuples",
    "tumbling, time(60)": "the clock moved by 4 s, and no timer of 60 s was due; it still holds 5 tuples",
    "tumbling, delta(x, 10)": "no tuple exceeded delta(x, 10); it still holds 5 tuples",
    "tumbling, count(6) or delta(x, 10) or time(60)": (
        "no window got 6 tuples; no tuple exceeded delta(x, 10); "
        "the clock moved by 4 s, and no timer of 60 s was due; it still holds 5 tuples"
    ),
    "sliding, count(9), count(6)": "no window got 6 tuples, or none was full before; it still holds 5 tuples",
    WINDOW: "no watermark came (in has no lag); it still holds 5 tuples",
}


@pytest.mark.parametrize(("window", "why"), SILENT.items())
def test_a_window_that_never_fired(window, why):
    lines = summary(f'aggregate: in, window: "{window}"')
    assert lines == ["in: 5 tuples of in; out: 0 tuples of out", f"only never fired: {why}"]


def test_a_mark_that_waits_for_those_of_other_topic_partitions():
    operator = 'aggregate: in, window: "tumbling, punct()"'
    text = PIPELINE.format(operator=operator, n="Collect(x)", event_time="t").replace("topic_partition", "aligned")
    lines: list[str] = []
    events = [TUPLES[0] | {"topic_partition": 1}, {"at": 1, "topic_partition": 1, "punct": "window"}]
    assert list(replay(load_text(text, "p.yaml"), events, ended=lines.append)) == []
    why = "no window mark came from every topic partition of in (marks_in: aligned); it still holds 1 tuple"
    assert lines == ["in: 1 tuple and 1 mark of in; out: 0 tuples of out", f"only never fired: {why}"]


def test_a_watermark_that_ends_no_window():
    lines = summary(f'aggregate: in, window: "{WINDOW}"', event_time="{attribute: t, lag: 1s}")
    why = "the watermark reached 1970-01-01T00:00:03Z, which ends no window that holds a tuple; it still holds 5 tuples"
    assert lines[1] == f"only never fired: {why}"


def test_a_topic_partition_without_a_tuple_holds_the_watermark_back():
    events = [*TUPLES, {"at": 5, "topic_partition": 1, "punct": "window"}]
    lines = summary(f'aggregate: in, window: "{WINDOW}"', events, event_time="{attribute: t, lag: 1s}")
    why = "no watermark came (topic partition 1 of in has no tuple); it still holds 5 tuples"
    assert lines[1] == f"only never fired: {why}"


def test_watermarks_of_a_stream_with_a_lag_have_no_effect():
    events = [*TUPLES, {"at": 5, "watermark": 100}]
    lines = summary(f'aggregate: in, window: "{WINDOW}"', events, event_time="{attribute: t, lag: 1s}")
    assert lines[1] == "the watermarks of in in the events have no effect: its lag makes them from its tuples"
    assert summary(f'aggregate: in, window: "{WINDOW}"', events)[1:] == []


def test_a_map_whose_condition_never_held():
    assert summary("map: in, where: x > 10", n="x")[1] == "only wrote nothing: its condition held for no tuple"


def test_an_operator_that_nothing_reached():
    lines = summary('aggregate: in, window: "tumbling, count(2)"', events=[{"at": 0}])
    assert lines == ["in: nothing; out: 0 tuples of out", "only never fired: no tuple of in reached it"]


def test_tuples_that_are_dead_letters():
    lines = summary('aggregate: in, window: "tumbling, count(1)"', n="Last(x % (x - x))")
    assert lines == [
        "in: 5 tuples of in; out: 0 tuples of out; 5 dead letters",
        "only never fired: all its tuples are dead letters",
    ]


def test_an_operator_that_fired_is_not_listed():
    lines = summary('aggregate: in, window: "tumbling, count(2)"')
    assert lines == ["in: 5 tuples of in; out: 2 tuples and 2 marks of out"]

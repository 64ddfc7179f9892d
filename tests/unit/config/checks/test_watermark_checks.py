from textwrap import dedent

import pytest

from sluice.config.load import check

FILE = """\
pipeline: one
streams:
  trades: {{topic: trades, schema: {{symbol: string, time: timestamp}}, event_time: {event_time}}}
  some: {{}}
  out: {{topic: out}}
operators:
  - {{name: keep, map: trades, output: [some]}}
  - {{name: hourly, aggregate: some, window: "{window}", output: {{out: {{n: Count()}}}}}}
"""
PANES = "timeInterval, intervalDuration(1h)"


def cautions(tmp_path, event_time, window=PANES):
    path = tmp_path / "p.yaml"
    path.write_text(dedent(FILE.format(event_time=event_time, window=window)))
    found = check(path)
    assert not found.problems
    return [(caution.line, caution.path, caution.text) for caution in found.cautions]


def test_panes_without_lag(tmp_path):
    text = (
        "hourly fires at watermarks only, and without lag these come only from the producers of trades (rule E3); "
        "with `lag: 5s` they are made from the tuples"
    )
    assert cautions(tmp_path, "time") == [(3, "streams.trades.event_time", text)]


def test_panes_with_lag(tmp_path):
    assert cautions(tmp_path, "{attribute: time, lag: 0}") == []


UNUSED = "no operator uses this event time{}. Windows over event time are timeInterval, slidingTime and session"


@pytest.mark.parametrize(
    ("window", "clock"),
    [
        ("tumbling, count(2)", ""),
        ("sliding, time(10m), count(1)", "; time(...) of hourly follows the operator clock"),
        ("tumbling, time(1h)", "; time(...) of hourly follows the operator clock"),
    ],
)
def test_an_event_time_that_no_window_uses(tmp_path, window, clock):
    found = cautions(tmp_path, "{attribute: time, lag: 5}", window)
    assert found == [(3, "streams.trades.event_time", UNUSED.format(clock))]


@pytest.mark.parametrize("window", ["session, inactivityGap(5)", "slidingTime, timeDifference(5), grace(1)", PANES])
def test_an_event_time_that_a_window_uses(tmp_path, window):
    assert cautions(tmp_path, "{attribute: time, lag: 5}", window) == []


def test_an_event_time_whose_watermarks_are_written(tmp_path):
    path = tmp_path / "p.yaml"
    streams = FILE.format(event_time="{attribute: time, lag: 5}", window="tumbling, count(2)")
    path.write_text(streams.replace("some: {}", "some: {topic: some, watermarks: true}"))
    assert check(path).cautions == ()


def test_windows_that_need_no_watermark(tmp_path):
    assert cautions(tmp_path, "time", "tumbling, count(2)") == []


def test_several_buckets_that_a_stage_cannot_have(tmp_path):
    path = tmp_path / "p.yaml"
    file = FILE.format(event_time="{attribute: time, lag: 5}", window=PANES)
    path.write_text(f"buckets: 4\n{file}")
    text = (
        "one runs in one bucket: hourly: its window has no partitions; give hourly partition_by, and `partitioned` in "
        "its clause, if its results may be those of each key"
    )
    assert [(one.line, one.path, one.text) for one in check(path).cautions] == [(1, "buckets", text)]
    path.write_text(file)
    assert check(path).cautions == ()

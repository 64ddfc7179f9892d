from textwrap import dedent

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


def test_windows_that_need_no_watermark(tmp_path):
    assert cautions(tmp_path, "time", "tumbling, count(2)") == []

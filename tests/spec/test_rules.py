"""Rules that no case of tests/engine/cases can show: made watermarks, dead letters, NaN in a result, state sizes."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.columns.json_columns import python_values
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered, topic_partitions
from sluice.replayer.player import Player
from sluice.testing import on_stream, pipeline_of, run_case
from tests.unit.replayer.test_player import briefly, everything, pipeline

MADE_WATERMARKS = """
pipeline: made
streams:
  in: {topic: in, schema: {t: float64}, event_time: {attribute: t, lag: 5, minimum_gap: 2}}
  out: {topic: out}
operators:
  - name: panes
    aggregate: in
    window: timeInterval, intervalDuration(10)
    output: {out: {ts: Collect(t)}}
"""


def test_a_watermark_that_is_made_follows_its_tuple():
    """E3: event time less the lag of 5 s, if that is 2 s above the last watermark: 10, 19, not 20, 21."""
    given = [{"at": at, "tuple": {"t": t}} for at, t in enumerate([1.0, 15.0, 24.0, 25.0, 26.0])]
    assert briefly(everything(pipeline(MADE_WATERMARKS), given)) == [
        "1 out [1.0]", "1 out window", "4 out [15.0]", "4 out window",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("direction", "expected"), [("asc", ["-1.0", "2.0", "inf", "nan"]), ("desc", ["nan", "inf", "2.0", "-1.0"])]
)
def test_nan_is_greater_than_every_number_in_a_sort(direction: str, expected: list[str]):
    """O4."""
    case = {
        "operator": {
            "kind": "sort", "window": "tumbling, count(4)", "order_by": [("x", direction)], "schema": {"x": "float64"},
        },
        "input": [{"at": 0, "tuple": {"x": x}} for x in ("NaN", 2.0, "Infinity", -1.0)],
    }  # fmt: skip
    assert [str(record["tuple"]["x"]) for record in run_case(case) if "tuple" in record] == expected


def test_a_tuple_whose_only_pane_would_extend_across_0_is_a_dead_letter():
    """E14: -1 would be in [-7, 3) alone, which does not exist (E13); 1 is in [0, 10), and -8 in [-14, -4)."""
    operator = {
        "window": "timeInterval, intervalDuration(10), creationPeriod(7)", "event_time": "ts",
        "output": {"from": "intervalStart()", "all": "Collect(ts)"},
    }  # fmt: skip
    events = [*({"at": 0, "tuple": {"ts": ts}} for ts in (-1.0, 1.0, -8.0)), {"at": 1, "watermark": 20.0}]
    records = run_case({"operator": operator, "input": events, "dead_letters": True})
    assert [record["after"] for record in records if "dead_letter" in record] == [0]
    fired = [(r["tuple"]["from"], r["tuple"]["all"]) for r in records if "tuple" in r]
    assert fired == [(-14.0, [-8.0]), (0.0, [1.0])]


def saved_sizes(operator: dict[str, Any], times: range, batch: int) -> list[int]:
    """The bytes of the saved state after each batch of tuples with these event times."""
    events = [{"at": 0, "tuple": {"ts": ts}} for ts in times]
    made = pipeline_of({"operator": operator, "input": events})
    placed = list(numbered(map(on_stream, events)))
    player = Player(made, topic_partitions(placed, ["input"]), python_values)
    cutter, state = Cutter(made.inputs), player.graph.initial()
    sizes = []
    for start in range(0, len(placed), batch):
        list(player.feed(state, cutter.batch(placed[start : start + batch])))
        sizes.append(len(player.graph.save(state)))
    return sizes


def test_times_that_no_open_window_can_hold_are_forgotten():
    """KIP S6: 11 times can be in an open window, or begin one, however many came before."""
    operator = {
        "window": "slidingTime, timeDifference(0.010), grace(0.000)", "event_time": "ts",
        "event_time_resolution": "Milliseconds", "output": {"n": "Count()"},
    }  # fmt: skip
    sizes = saved_sizes(operator, range(1000, 21_000), batch=1000)
    assert max(sizes[1:]) <= 1.1 * sizes[0]

"""A zoomed story: the windows of one key alone, and the windows as they are when a range of time starts."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config.load import load_text
from sluice.pictures.story import Step, Story, Zoom, keys, zoomed
from sluice.pictures.story_builder import build_story
from sluice.time_units import SECOND

FILE = """
pipeline: p
streams:
  readings:
    {{topic: readings, schema: {{sensor: string, x: int64, ts: float64}}, event_time: {{attribute: ts, lag: 0}}}}
  out: {{topic: out}}
operators:
  - name: sum
    aggregate: readings
    window: "{window}"
    partition_by: [sensor]
    output: {{out: {{sensor: Any(sensor), x: Sum(x)}}}}
"""
SLIDING = "sliding, count(2), partitioned"
PANES = "timeInterval, intervalDuration(10), partitioned"


def story(window: str, *events: tuple[float, str, int]) -> Story:
    """A story of events (time, key, value)."""
    made = [{"at": at, "tuple": {"sensor": sensor, "x": x, "ts": at}} for at, sensor, x in events]
    return build_story(load_text(FILE.format(window=window), "p.yaml"), made)


def told(built: Story) -> list[tuple[float, list[tuple[str, list[int]]], list[int]]]:
    """Of each step its time, its windows with their tuples, and the results."""
    return [
        (step.at / SECOND, windows(step), [one.values["x"] for one in step.outputs if one.kind == "tuple"])
        for step in built.steps
    ]


def windows(step: Step) -> list[tuple[str, list[int]]]:
    return [(change.window.key, [int(chip.values["x"]) for chip in change.inside]) for change in step.changes]


EVENTS = ((0, "a", 1), (1, "b", 2), (2, "a", 4), (3, "b", 8), (4, "a", 16))


def test_the_keys_are_those_of_all_windows():
    assert keys(story(SLIDING, *EVENTS)) == ["a", "b"]


@pytest.mark.parametrize(
    ("zoom", "expected"),
    [
        (
            Zoom(),
            [
                (0, [("a", [1])], [1]),
                (1, [("b", [2])], [2]),
                (2, [("a", [1, 4])], [5]),
                (3, [("b", [2, 8])], [10]),
                (4, [("a", [4, 16])], [20]),
            ],
        ),
        (Zoom("a"), [(0, [("a", [1])], [1]), (2, [("a", [1, 4])], [5]), (4, [("a", [4, 16])], [20])]),
        (Zoom("c"), []),
        (Zoom(end=SECOND), [(0, [("a", [1])], [1]), (1, [("b", [2])], [2])]),
        (
            Zoom(start=3 * SECOND),
            [(3, [("a", [1, 4]), ("b", [2])], []), (3, [("b", [2, 8])], [10]), (4, [("a", [4, 16])], [20])],
        ),
        (Zoom("b", start=2 * SECOND), [(2, [("b", [2])], []), (3, [("b", [2, 8])], [10])]),
    ],
    ids=["all", "a key", "an unknown key", "up to a time", "from a time", "a key from a time"],
)
def test_a_zoom_shows_the_windows_of_its_key_and_range(zoom: Zoom, expected: list[Any]):
    assert [(at, sorted(some), out) for at, some, out in told(zoomed(story(SLIDING, *EVENTS), zoom))] == expected


def test_the_first_step_of_a_range_counts_the_events_before_it_and_has_their_watermark():
    opening = zoomed(story(PANES, *EVENTS), Zoom(start=4 * SECOND)).steps[0]
    assert opening.event is not None
    assert opening.event["before"] == 4
    assert opening.watermarks == {"readings": 3 * SECOND}


def test_results_of_several_keys_at_one_moment_are_told_apart():
    built = story(PANES, (1, "a", 1), (2, "b", 2), (25, "c", 4))
    assert [(some, out) for _, some, out in told(zoomed(built, Zoom("b"))) if out] == [([("b", [])], [2])]

"""Pictures of many events: no text covers another one, and the size has a bound."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest

from sluice.config.load import load_text
from sluice.model.spec import Pipeline
from sluice.pictures.story_builder import build_story
from sluice.pictures.svg_drawing import drawing
from sluice.svg.svg_canvas import width_of

START = 1_767_261_600
HEAD = """
pipeline: p
streams:
  readings:
    {topic: readings, schema: {sensor: string, value: float64, ts: timestamp}, event_time: {attribute: ts, lag: 3}}
  others: {topic: others, schema: {sensor: string, size: int64, ts: timestamp}, event_time: {attribute: ts, lag: 3}}
  out: {topic: out}
operators:
"""
AGGREGATE = (
    "  - {{name: a, aggregate: readings, window: '{}', {}"
    "output: {{out: {{sensor: Any(sensor), mean: Average(value)}}}}}}\n"
)
KEYED = "partition_by: [sensor], "
JOIN = "  - {name: j, join: {left: readings, right: others}, equality_left: [sensor], equality_right: [sensor], "
CASES = {
    "tumbling": AGGREGATE.format("tumbling, count(7)", ""),
    "tumbling-many": AGGREGATE.format("tumbling, count(150)", ""),
    "sliding-keys": AGGREGATE.format("sliding, count(5), count(1), partitioned", KEYED),
    "sliding-time": AGGREGATE.format("sliding, time(60), time(20)", ""),
    "panes": AGGREGATE.format("timeInterval, intervalDuration(10)", ""),
    "panes-keys": AGGREGATE.format("timeInterval, intervalDuration(10), partitioned", KEYED),
    "panes-overlapping": AGGREGATE.format("timeInterval, intervalDuration(20), creationPeriod(5)", ""),
    "sliding-time-windows": AGGREGATE.format("slidingTime, timeDifference(10)", ""),
    "sessions": AGGREGATE.format("session, inactivityGap(4)", KEYED),
    "join": f"{JOIN}window_left: 'sliding, count(3)', window_right: 'sliding, time(30)', output: [out]}}\n",
    "event-join": f"{JOIN}window: 'interval, before(5), after(5)', output: [out]}}\n",
}
#: the most width and height of a picture with its steps, pixels
WIDEST, HIGHEST = 2_200, 6_500


class Text(NamedTuple):
    """A text of a picture: its box, and the steps that show it."""

    words: str
    left: float
    right: float
    baseline: float
    since: float
    until: float

    def covers(self, other: Text) -> bool:
        return (
            self.left < other.right and other.left < self.right and abs(self.baseline - other.baseline) < 12
            and self.since < other.until and other.since < self.until
        )  # fmt: skip


def texts(root: ET.Element) -> Iterator[Text]:
    for one in root.iter("{http://www.w3.org/2000/svg}text"):
        words = "".join([one.text or "", *(part.tail or "" for part in one)])
        wide, x = width_of(words), float(one.attrib["x"])
        left = x - wide * {"middle": 0.5, "end": 1.0}.get(one.get("text-anchor", ""), 0.0)
        life = float(one.get("data-from", "-1")), float(one.get("data-to", "inf"))
        yield Text(words, left, left + wide, float(one.attrib["y"]), *life)


def events(pipeline: Pipeline, count: int, keys: int, name: str) -> list[dict[str, Any]]:
    """Records in order of their times, some late, some behind long gaps, of `keys` sensors."""
    random, at, found = Random(count * 100 + keys), START * 1000, []
    reads = [stream.name for stream in pipeline.inputs]
    for number in range(count):
        at += random.choice([0, 100, 1000, 1000, 2500, 2500, 60_000 if number % 80 == 9 else 500])
        ts = (at - random.choice([0, 0, 1000, 2125, 15_000])) / 1000
        values = {
            "sensor": f"{name}{random.randrange(keys)}",
            "value": random.randrange(9999) / 8,
            "size": number,
            "ts": ts,
        }
        found.append({"at": at / 1000, "stream": random.choice(reads), "record": {"value": values}})
    return found


def picture(case: str, count: int, keys: int, name: str = "sensor-") -> ET.Element:
    pipeline = load_text(HEAD + CASES[case], "p.yaml")
    story = build_story(pipeline, events(pipeline, count, keys, name), clock_origin="first")
    return ET.fromstring(drawing(story))  # noqa: S314 - our own drawing


@pytest.mark.parametrize(("count", "keys", "name"), [(40, 3, "温度計"), (300, 5, "sensor-"), (300, 60, "s")])
@pytest.mark.parametrize("case", CASES)
def test_no_text_covers_another_one_and_the_size_has_a_bound(case: str, count: int, keys: int, name: str):
    root = picture(case, count, keys, name)
    drawn = sorted(texts(root), key=lambda one: one.baseline)
    assert len(drawn) > count / 4
    near = ((one, other) for one, other in combinations(drawn, 2) if other.baseline - one.baseline < 12)
    assert [(one.words, other.words) for one, other in near if one.covers(other)] == []
    assert float(root.attrib["width"]) <= WIDEST
    assert float(root.attrib["height"]) <= HIGHEST


def test_each_key_has_a_lane_with_its_name():
    named = {one.words for one in texts(picture("sliding-keys", 300, 5))}
    assert {f"sensor-{number}" for number in range(5)} <= named


def test_what_has_no_room_is_counted():
    words = " ".join(one.words for one in texts(picture("sliding-keys", 300, 60, "s")))
    assert "36 more windows are not drawn" in words
    assert "more steps are in the timelines only" in words
    assert "≤ 150 tuples" in " ".join(one.words for one in texts(picture("tumbling-many", 300, 1)))

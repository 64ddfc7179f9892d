"""Drawings show what the story says, as text that a reader can search, and load nothing."""

from __future__ import annotations

import io
import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from sluice.config.load import load_text
from sluice.pictures.story import Change, Chip, Port, Step, Story, WindowId
from sluice.pictures.story_builder import build_story
from sluice.pictures.svg_drawing import drawing
from sluice.pictures.terminal_table import table
from sluice.replayer.player import replay
from sluice.testing import pipeline_of

TUMBLING = {"window": "tumbling, count(2)", "output": {"all": "Collect(x)"}}
PANES = {"window": "timeInterval, intervalDuration(10)", "event_time": "ts", "output": {"all": "Collect(x)"}}
SESSION = {"window": "session, inactivityGap(5)", "event_time": "ts", "output": {"all": "Collect(x)"}}

CALENDAR = """
pipeline: sales
streams:
  sales: {topic: sales, schema: {x: int64, ts: timestamp}, event_time: {attribute: ts, lag: 5}}
  sums: {topic: sums}
operators:
  - {name: sum, aggregate: sales, window: "timeInterval, intervalDuration(10)", output: {sums: {sum: Sum(x)}}}
"""


def story(operator: dict[str, Any], *events: dict[str, Any]) -> Story:
    return build_story(pipeline_of({"operator": operator, "input": list(events)}), events)


def event(at: float, **values: Any) -> dict[str, Any]:
    return {"at": at, "tuple": values}


def texts(svg: str) -> list[str]:
    root = ET.fromstring(svg)  # noqa: S314 - our own drawing
    tag = "{http://www.w3.org/2000/svg}text"
    return ["".join(element.itertext()).split("\n")[-1] for element in root.iter(tag)]


def shapes(svg: str, kind: str) -> int:
    return len(re.findall(rf'class="{kind}"', svg))


def test_a_tumbling_window_is_drawn_as_bars_that_end_at_a_firing():
    svg = drawing(story(TUMBLING, event(0, x=1), event(1, x=2), event(2, x=3)), steps=False)
    assert "[1, 2] ■" in " ".join(texts(svg))
    assert (shapes(svg, "chip"), shapes(svg, "open")) == (2, 1)
    assert shapes(svg, "fire-head") == 1


def test_panes_are_drawn_over_event_time_with_what_came_out():
    svg = drawing(
        story(PANES, event(0, ts=101.0, x=1), {"at": 1, "watermark": 110}, event(2, ts=112.0, x=2)), steps=False
    )
    found = texts(svg)
    assert any("▶ [1] ■" in text for text in found)
    assert (shapes(svg, "chip"), shapes(svg, "open")) == (1, 1)
    assert any("at 1" in text for text in found)


def test_a_tuple_that_is_late_has_the_colour_of_an_error():
    svg = drawing(story(PANES, {"at": 0, "watermark": 110}, event(1, ts=101.0, x=1)), steps=False)
    assert shapes(svg, "gone") == 1


def test_only_the_last_extent_of_a_session_is_visible():
    svg = drawing(story(SESSION, event(0, ts=1.0, x=1), event(1, ts=3.0, x=2)), steps=False)
    assert (shapes(svg, "open grown"), shapes(svg, "open past")) == (1, 1)


@pytest.mark.parametrize("operator", [TUMBLING, PANES, SESSION], ids=["tumbling", "panes", "session"])
def test_a_drawing_loads_nothing_and_has_both_colour_schemes(operator: dict[str, Any]):
    svg = drawing(story(operator, event(0, ts=1.0, x=1)))
    assert "prefers-color-scheme:dark" in svg
    assert re.findall(r"(?:href|src|url)\W", svg) == []
    assert "<script" not in svg


def test_a_drawing_with_its_steps_explains_its_boxes_and_the_unit_of_its_clock():
    found = texts(drawing(story(TUMBLING, event(0, x=1))))
    assert {"clock (s)", "a tuple in its window", "still in it at the end", "inserted"} <= set(found)
    assert "a window that has fired" in texts(drawing(story(PANES, event(0, ts=1.0, x=1))))


def test_a_long_time_without_events_is_marked_on_an_axis_of_event_time():
    events = [event(number, ts=float(ts), x=1) for number, ts in enumerate([1, 2, 3, 900])]
    assert shapes(drawing(story(SESSION, *events[:3]), steps=False), "line") + 2 == shapes(
        drawing(story(SESSION, *events), steps=False), "line"
    )


def test_the_reason_why_a_tuple_is_late_is_not_cut():
    late = story(
        {**SESSION, "window": "session, inactivityGap(5), grace(1)"}, {"at": 0, "watermark": 30}, event(1, ts=10.5, x=1)
    )
    assert any(text.endswith("the watermark less grace") for text in texts(drawing(late, steps=False)))


def test_text_of_users_is_escaped():
    svg = drawing(story({**TUMBLING, "window": "tumbling, count(1)"}, event(0, x="<script>&")))
    assert "<script>" not in svg
    assert any("<script>" in text for text in texts(svg))


def test_a_story_without_events_can_be_drawn():
    assert "pipeline case" in texts(drawing(story({**PANES, "schema": {"ts": "float64", "x": "int64"}})))


def printed(told: Story, width: int = 100) -> str:
    """The table of the terminal as text."""
    console = Console(width=width, record=True, color_system=None, file=io.StringIO())
    console.print(table(told, width))
    return console.export_text()


@pytest.mark.parametrize("width", [50, 60, 80, 120])
def test_no_time_of_the_calendar_is_broken_in_a_narrow_terminal(width: int):
    times = [1_704_103_200.5, 1_704_103_207, 1_704_189_600.125]
    events = [{"at": at, "stream": "sales", "tuple": {"x": 100_000_000, "ts": at}} for at in times]
    told = build_story(load_text(CALENDAR, "sales.yaml"), events)
    lines = printed(told, width).splitlines()
    text = "\n".join(" ".join(line.split()) for line in lines)
    for expected in ("2024-01-01 10:00…10:00:10", "w 2024-01-01 10:00:02", "w 2024-01-02 09:59:55.125"):
        assert expected in text, text
    assert "ts=1704103200.5" in text
    clocks = [line.split()[0] for line in lines if re.match(r" {0,2}\d", line)]
    assert clocks == ["2024-01-01", "10:00:00.5", "10:00:07", "2024-01-02", "10:00:00.125"], text


def test_a_date_has_a_line_of_its_own_above_the_times():
    events = [{"at": at, "tuple": {"x": 1, "ts": at}} for at in (1_704_103_200, 1_704_103_207)]
    found = texts(drawing(build_story(load_text(CALENDAR, "sales.yaml"), events), steps=False))
    assert found.count("2024-01-01") == 1
    assert {"09:59:55", "10:00", "10:00:02"} <= set(found)


ENRICHED = """
pipeline: enriched
streams:
  orders: {topic: orders, schema: {order: string, user: string}}
  users: {topic: users, schema: {user: string, name: string}, key: {attributes: [user]}, table: true}
  named: {topic: named}
operators:
  - {name: join, join: {left: orders, right: users}, equality_left: [user], equality_right: [user], output: [named]}
"""


def test_a_table_is_drawn_as_its_rows_and_a_deletion_is_called_that():
    events = [
        {"at": 0, "stream": "users", "tuple": {"user": "u1", "name": "Ada"}},
        {"at": 1, "stream": "orders", "tuple": {"order": "o1", "user": "u1"}},
        {"at": 2, "stream": "users", "delete": {"user": "u1"}},
    ]
    found = texts(drawing(build_story(load_text(ENRICHED, "enriched.yaml"), events)))
    assert "table users: the newest row of each key" in found
    assert "users: delete user=u1" in found
    assert not any("count(0)" in text for text in found)


def test_a_deleted_row_is_not_in_the_table():
    """The state remembers the deleted key; the picture and the trace have the rows alone."""
    events = [
        {"at": 0, "stream": "users", "tuple": {"user": "u1", "name": "Ada"}},
        {"at": 1, "stream": "users", "delete": {"user": "u1"}},
        {"at": 2, "stream": "users", "delete": {"user": "u2"}},
        {"at": 3, "stream": "users", "tuple": {"user": "u1", "name": "Eve"}},
    ]
    pipeline = load_text(ENRICHED, "enriched.yaml")
    changes = [change for step in build_story(pipeline, events).steps for change in step.changes]
    rows = [[[chip.label for chip in part] for part in (one.inside, one.entered, one.left)] for one in changes]
    assert rows == [[["u1·Ada"], ["u1·Ada"], []], [[], [], ["u1·Ada"]], [["u1·Eve"], ["u1·Eve"], []]]
    traced = [one["tuple"] for one in replay(pipeline, events, trace=True) if "tuple" in one]
    assert all("-deletes" not in one and one["name"] for one in traced)


def test_the_table_of_the_terminal_shows_firings_and_outputs():
    text = printed(story(TUMBLING, event(0, x=1), event(1, x=2)))
    assert "▶ [1 +2]" in text
    assert "[1, 2] ■" in text


def test_the_table_shows_a_late_tuple_without_a_window_that_it_did_not_enter():
    text = printed(story(PANES, {"at": 0, "watermark": 110}, event(1, ts=101.0, x=7)))
    (line,) = [line for line in text.splitlines() if "x=7" in line]
    assert "✕ 7" in line
    assert "[" not in line


def test_a_tuple_that_is_in_the_first_of_two_firings_lies_before_the_line():
    chip = Chip(1, "1", {"x": 1})
    change = Change(WindowId("sum"), (), entered=(chip,), fired=((chip,), ()))
    port = Port("sum", "", "tumbling, punct()", None, clears=True)
    built = Story("p", (port,), (Step(0, 0, {"at": 0, "tuple": {"x": 1}}, {}, (change,), ()),))
    root = ET.fromstring(drawing(built, steps=False))  # noqa: S314 - our own drawing
    (bar,) = (float(one.get("x", 0)) for one in root.iter() if one.get("class") == "chip")
    (line,) = (float(one.get("x1", 0)) for one in root.iter() if one.get("class") == "fire")
    assert bar < line

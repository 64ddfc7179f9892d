"""Drawings show what the story says, as text that a reader can search, and load nothing."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from sluice.pictures.story import Change, Chip, Port, Step, Story, Window
from sluice.pictures.story_builder import build_story
from sluice.pictures.svg_drawing import drawing
from sluice.pictures.terminal_table import table
from sluice.testing import pipeline_of

TUMBLING = {"window": "tumbling, count(2)", "output": {"all": "Collect(x)"}}
PANES = {"window": "timeInterval, intervalDuration(10)", "event_time": "ts", "output": {"all": "Collect(x)"}}
SESSION = {"window": "session, inactivityGap(5)", "event_time": "ts", "output": {"all": "Collect(x)"}}


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
    assert (shapes(svg, "open"), shapes(svg, "open past")) == (1, 1)


@pytest.mark.parametrize("operator", [TUMBLING, PANES, SESSION], ids=["tumbling", "panes", "session"])
def test_a_drawing_loads_nothing_and_has_both_colour_schemes(operator: dict[str, Any]):
    svg = drawing(story(operator, event(0, ts=1.0, x=1)))
    assert "prefers-color-scheme:dark" in svg
    assert re.findall(r"(?:href|src|url)\W", svg) == []
    assert "<script" not in svg


def test_text_of_users_is_escaped():
    svg = drawing(story({**TUMBLING, "window": "tumbling, count(1)"}, event(0, x="<script>&")))
    assert "<script>" not in svg
    assert any("<script>" in text for text in texts(svg))


def test_a_story_without_events_can_be_drawn():
    assert "pipeline case" in texts(drawing(story({**PANES, "schema": {"ts": "float64", "x": "int64"}})))


def test_the_table_of_the_terminal_shows_firings_and_outputs():
    console = Console(width=100, record=True, color_system=None)
    console.print(table(story(TUMBLING, event(0, x=1), event(1, x=2))))
    text = console.export_text()
    assert "▶ [1 +2]" in text
    assert "[1, 2] ■" in text


def test_the_table_shows_a_late_tuple_without_a_window_that_it_did_not_enter():
    console = Console(width=100, record=True, color_system=None)
    console.print(table(story(PANES, {"at": 0, "watermark": 110}, event(1, ts=101.0, x=7))))
    (line,) = [line for line in console.export_text().splitlines() if "x=7" in line]
    assert "✕ 7" in line
    assert "[" not in line


def test_a_tuple_that_is_in_the_first_of_two_firings_lies_before_the_line():
    chip = Chip(1, "1", {"x": 1})
    change = Change(Window("sum"), (), entered=(chip,), fired=((chip,), ()))
    port = Port("sum", "", "tumbling, punct()", None, clears=True)
    built = Story("p", (port,), (Step(0, 0, {"at": 0, "tuple": {"x": 1}}, {}, (change,), ()),))
    root = ET.fromstring(drawing(built, steps=False))  # noqa: S314 - our own drawing
    (bar,) = (float(one.get("x", 0)) for one in root.iter() if one.get("class") == "chip")
    (line,) = (float(one.get("x1", 0)) for one in root.iter() if one.get("class") == "fire")
    assert bar < line

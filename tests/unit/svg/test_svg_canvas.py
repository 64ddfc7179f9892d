"""A canvas never lets a text cover another one, whoever draws it, and follows the colours of the screen."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from sluice.svg.svg_canvas import DARK, LETTER, LIGHT, Canvas, cut, letters, shown_from, width_of


def words(canvas: Canvas) -> list[str]:
    return ["".join([one.text or "", *(part.tail or "" for part in one)]) for one in canvas.element.iter("text")]


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("", 0), ("日本", 4), ("é", 1), ("e\N{COMBINING ACUTE ACCENT}", 1), ("▶ ■", 3)]
)
def test_a_letter_takes_a_column_and_a_wide_letter_two(text: str, columns: int):
    assert letters(text) == columns


@pytest.mark.parametrize(
    ("text", "most", "shown"), [("abcdef", 6, "abcdef"), ("abcdef", 4, "abc…"), ("日本語", 4, "日…"), ("abc", 1, "…")]
)
def test_a_text_is_cut_to_columns(text: str, most: int, shown: str):
    assert cut(text, most) == shown
    assert letters(shown) <= most


def test_a_text_is_cut_before_the_next_one_and_its_whole_is_its_title():
    canvas = Canvas()
    canvas.text(100, 20, "later")
    assert canvas.text(40, 20, "a long text before it")
    assert words(canvas) == ["later", "a long…"]
    assert canvas.element[1][0].text == "a long text before it"
    assert 40 + width_of("a long…") <= 100


@pytest.mark.parametrize(
    ("x", "y", "anchor", "drawn"),
    [
        (50, 20, "", False),
        (50, 28, "", False),
        (50, 34, "", True),
        (50 + 4 * LETTER, 20, "", True),
        (60, 20, "middle", False),
        (49, 20, "end", True),
        (60, 20, "end", False),
    ],
)
def test_a_text_at_the_place_of_another_one_is_not_drawn(x: float, y: float, anchor: str, drawn: bool):  # noqa: FBT001
    canvas = Canvas()
    canvas.text(50, 20, "abc")
    assert canvas.text(x, y, "de", anchor=anchor) is drawn


def test_a_text_may_take_the_place_of_one_that_no_step_shows_with_it():
    canvas = Canvas()
    canvas.text(0, 20, "first", tag=shown_from(0, 3))
    assert not canvas.text(0, 20, "with it", tag=shown_from(2))
    assert canvas.text(0, 20, "behind it", tag=shown_from(3))


def test_the_shapes_of_a_group_are_parts_of_the_picture():
    canvas = Canvas()
    group = canvas.group("topic", title="a & b")
    group.box(10, 10, 90, 20, "")
    group.text(12, 24, "abc")
    assert canvas.right == 100
    assert not canvas.text(12, 24, "covers it")


def test_a_document_has_the_colours_of_both_screens_and_loads_nothing():
    canvas = Canvas("<title>")
    canvas.text(5, 20, "<script>&")
    svg = canvas.document(100, 50, ".chip{fill:var(--chip)}\n")
    root = ET.fromstring(svg)  # noqa: S314 - our own drawing
    assert (root.get("width"), root.get("viewBox")) == ("100", "0 0 100 50")
    assert ".sluice-picture .chip{" in svg
    assert "prefers-color-scheme:dark" in svg
    assert LIGHT.keys() == DARK.keys()
    assert "<script" not in svg
    assert re.findall(r"(?:href|src|url)\W", svg) == []

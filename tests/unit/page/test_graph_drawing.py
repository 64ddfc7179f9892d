"""How the graph of the page fits the width of a screen."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from sluice.page.graph_drawing import drawing
from sluice.planning.explain_drawing import Band, Box


def chain(length: int) -> Band:
    """So many operators, each behind the one before."""
    boxes = {str(n): Box(f"operator {n}", n, 0, "operator", "") for n in range(length)}
    return Band("stage 1", boxes, tuple((str(n), str(n + 1), "") for n in range(length - 1)))


def corners(width: int, length: int = 5) -> list[tuple[float, float, float]]:
    """The left edge, the upper edge and the right edge of each box."""
    svg = ET.fromstring(drawing([(chain(length), {})], width, "wide"))  # noqa: S314 - made by the test
    boxes = [element for element in svg.iter() if element.tag.endswith("rect")]
    assert float(svg.get("width", "0")) <= width
    edges = [(float(box.get("x", "0")), float(box.get("y", "0")), float(box.get("width", "0"))) for box in boxes]
    return [(x, y, x + wide) for x, y, wide in edges]


@pytest.mark.parametrize(("width", "lines"), [(2000, 1), (800, 2), (366, 5)])
def test_columns_that_do_not_fit_continue_in_further_lines(width: int, lines: int):
    found = corners(width)
    assert len({y for _, y, _ in found}) == lines
    assert max(right for _, _, right in found) <= width
    assert found[0][0] == min(x for x, _, _ in found)


def test_a_long_text_is_cut_to_the_width_of_a_phone():
    svg = drawing([(chain(1), {"0": ["x" * 80]})], 366, "narrow")
    assert "x" * 40 in svg
    assert "…" in svg

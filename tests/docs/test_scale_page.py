"""The page about scale: its model is computed from its measured costs, and its plot shows that model."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator

import pytest

from benchmarks.scale import CHOSEN, EXECUTORS, PAGE, PLOT, plot, results_of_page
from benchmarks.scale_model import Cluster, Costs, most, rate
from sluice.files import project_file

TEXT = project_file(PAGE).read_text()


def rows(first: str) -> Iterator[list[str]]:
    """The cells of the rows of the table whose head begins with these cells."""
    lines = TEXT.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(first))
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def costs() -> dict[str, Costs]:
    return {result.title: result.costs for result in results_of_page()}


def test_the_page_has_the_chosen_workloads():
    assert tuple(costs()) == CHOSEN


def test_the_modelled_rates_follow_from_the_measured_costs():
    first = "| workload | 1 executor |"
    for title, *cells in rows(first):
        of = costs()[title]
        expected = [*(rate(of, Cluster(number)) for number in EXECUTORS), most(of)]
        assert [float(cell.replace(",", "")) for cell in cells[:-1]] == pytest.approx(expected, abs=1)
    assert len(list(rows(first))) == len(CHOSEN)


def test_the_plot_shows_the_model():
    assert lines(project_file(PLOT).read_text()) == lines(plot(results_of_page())), "run `make bench-scale ARGS=--plot`"


def lines(image: str) -> list[str]:
    """The lines. The circles depend on the machine and on docs/benchmarks.md."""
    root = ET.fromstring(image)  # noqa: S314 - a file of this repository
    return [element.attrib["points"] for element in root.iter() if element.tag.endswith("polyline")]

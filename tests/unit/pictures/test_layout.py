from __future__ import annotations

from itertools import pairwise

import pytest

from sluice.pictures import labels
from sluice.pictures.layout import WIDEST, Axis, packed
from sluice.pictures.story import Scale
from sluice.time_units import SECOND


def test_an_axis_follows_the_times():
    axis = Axis([0, 10, 30], left=100, width=300, least=40, most=1000)
    assert axis.at(0) == 100
    assert axis.at(30) == axis.right
    assert axis.at(20) == pytest.approx((axis.at(10) + axis.at(30)) / 2)


def test_a_long_gap_is_drawn_shorter_and_marked():
    axis = Axis([0, 1, 2, 1000], left=0, width=400, least=10, most=1000)
    assert axis.broken == [2]
    assert axis.at(1000) - axis.at(2) < 4 * (axis.at(2) - axis.at(1))


def test_an_axis_that_would_be_too_wide_for_a_page_draws_long_gaps_shorter():
    times = [0, 1, 2, 4, 5, 6, 8, 9, 10, 12]
    short, long = (Axis(times, left=0, width=300, least=least, most=1000) for least in (30, 60))
    assert (short.broken, long.broken) == ([], [2, 5, 8])
    assert long.right < WIDEST


def test_times_that_repeat_have_places_of_their_own():
    axis = Axis([5, 5, 5], left=0, width=100, least=30, most=1000)
    assert all(later - earlier >= 30 for earlier, later in pairwise(axis.positions))


def test_an_axis_of_one_time_has_one_place():
    assert Axis([7], left=12, width=100, least=30, most=1000).positions == [12]


def test_an_axis_of_many_times_is_no_wider_than_it_may_be():
    axis = Axis(list(range(500)), left=50, width=300, least=60, most=1000)
    assert axis.right == pytest.approx(1050)
    assert all(later > earlier for earlier, later in pairwise(axis.positions))


def test_a_span_without_room_has_no_row():
    assert packed([(0, 10), (2, 12), (4, 14), (20, 30)], most=2) == [0, 1, 2, 0]


def test_spans_of_a_row_do_not_overlap():
    assert packed([(0, 10), (5, 15), (12, 20), (16, 30)], gap=1) == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("nanoseconds", "text"), [(5 * SECOND, "5"), (5 * SECOND + 1, "5+"), (2 * SECOND + 125_000_000, "2.125"), (0, "0")]
)
def test_a_time_of_the_clock_is_in_seconds(nanoseconds: int, text: str):
    assert labels.clock(nanoseconds, calendar=False) == text


def test_an_event_time_is_written_as_its_attribute_has_it():
    assert labels.on_scale(10_000_000, Scale("ts", "int64", 1_000_000)) == "10"
    assert labels.on_scale(1_500_000_000, Scale("ts", "float64")) == "1.5"
    assert labels.on_scale(1_357_034_402_125_000_000, Scale("ts", "timestamp")) == "2013-01-01 10:00:02.125"


def test_a_date_is_written_once():
    assert labels.after("2013-01-01 10:00", "2013-01-01 11:00") == "11:00"
    assert labels.after("2013-01-01 10:00", "2013-01-02 11:00") == "2013-01-02 11:00"
    assert labels.after("5", "6") == "6"

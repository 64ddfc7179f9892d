from __future__ import annotations

from itertools import pairwise

import pytest

from sluice.pictures.layout import Axis, packed


def test_an_axis_follows_the_times():
    axis = Axis([0, 10, 30], left=100, width=300, least=40)
    assert axis.at(0) == 100
    assert axis.at(30) == axis.right
    assert axis.at(20) == pytest.approx((axis.at(10) + axis.at(30)) / 2)


def test_a_long_gap_is_drawn_shorter_and_marked():
    axis = Axis([0, 1, 2, 1000], left=0, width=400, least=10)
    assert axis.broken == [2]
    assert axis.at(1000) - axis.at(2) < 4 * (axis.at(2) - axis.at(1))


def test_times_that_repeat_have_places_of_their_own():
    axis = Axis([5, 5, 5], left=0, width=100, least=30)
    assert all(later - earlier >= 30 for earlier, later in pairwise(axis.places))


def test_an_axis_of_one_time_has_one_place():
    assert Axis([7], left=12, width=100, least=30).places == [12]


def test_spans_of_a_row_do_not_overlap():
    assert packed([(0, 10), (5, 15), (12, 20), (16, 30)], gap=1) == [0, 1, 0, 1]

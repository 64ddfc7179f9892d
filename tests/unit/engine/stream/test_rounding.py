"""round(x, n) against exact arithmetic: halves away from zero, of the float64 x * 10^n."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal, localcontext

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluice.engine.stream.functions.number_functions import round_half_away

NAN, INF = math.nan, math.inf


def rounded(value: float, places: int) -> float:
    return float(round_half_away(pa.array([value]), pa.scalar(places))[0].as_py())


def exactly(value: float, places: int) -> float:
    """The same in decimals: only the product and the last division are those of float64."""
    power = 10.0 ** abs(places)
    shifted = value * power if places >= 0 else value / power
    if abs(shifted) >= 2.0**53:
        return value
    with localcontext(prec=1100):
        whole = float(Decimal(shifted).to_integral_value(ROUND_HALF_UP))
    return math.copysign(whole / power if places >= 0 else whole * power, value)


def same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@st.composite
def near_a_half(draw: st.DrawFn) -> tuple[float, int]:
    """A number that is at a half of a decimal place, or a few float64 away from it."""
    places = draw(st.integers(-20, 20))
    half = (draw(st.integers(-(10**6), 10**6)) + 0.5) / 10.0**places
    for _ in range(draw(st.integers(0, 3))):
        half = math.nextafter(half, draw(st.sampled_from([-INF, INF])))
    return half, places


@given(st.one_of(near_a_half(), st.tuples(st.floats(), st.integers(-308, 308))))
@example((0.49999999999999994, 0))
@example((-0.49999999999999994, 0))
@example((-0.049999999999999996, 1))
@example((4503599627370497.5, 0))
@example((-9007199254740993.0, 0))
def test_any_number(of: tuple[float, int]):
    value, places = of
    if math.isfinite(value):
        assert same(rounded(value, places), exactly(value, places)), of
    else:
        assert same(rounded(value, places), value)


@pytest.mark.parametrize(
    ("value", "places", "expected"),
    [
        (-0.49999999999999994, 0, -0.0), (0.49999999999999994, 0, 0.0), (-0.5, 0, -1.0), (-1.4999999999999998, 0, -1.0),
        (-0.049999999999999996, 1, -0.0), (-0.05, 1, -0.1), (-0.0, 0, -0.0), (-0.3, 0, -0.0), (2.675, 2, 2.68),
        (-49.99999999999999, -2, -0.0), (-50.0, -2, -100.0), (1e16, -16, 1e16), (4.9e15, -16, 0.0), (5e15, -16, 1e16),
        (1.5e307, -307, 2e307), (1.7e308, -308, INF), (1.7e308, -309, 0.0), (-1.7e308, -400, -0.0),
        (1.5e-315, 315, 2e-315), (5e-324, 400, 5e-324), (NAN, 3, NAN), (-INF, -3, -INF), (1.5, 10**6, 1.5),
    ],
)  # fmt: skip
def test_one_number(value: float, places: int, expected: float):
    assert same(rounded(value, places), expected)

"""The values of event times that the functions of windows give."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sluice.columns.encoding import FLOAT_EXACT, from_units
from sluice.model.types import FLOAT64
from sluice.time_units import MILLISECOND, SECOND


@pytest.mark.parametrize(
    "nanoseconds",
    [
        pytest.param(np.arange(-40_000, 40_000) * MILLISECOND, id="milliseconds around 1970"),
        pytest.param(np.array([-1, -3, 1, 10**9 - 1]), id="nanoseconds around 1970"),
        pytest.param(FLOAT_EXACT + np.arange(-5, 5), id="where float64 ceases to have every nanosecond"),
        pytest.param(1_700_000_000 * SECOND + np.arange(1000) * MILLISECOND, id="milliseconds of this century"),
        pytest.param(-1_700_000_000 * SECOND + np.arange(1000) * MILLISECOND, id="milliseconds of the last century"),
    ],
)
def test_nanoseconds_become_the_nearest_float64_of_seconds(nanoseconds: np.ndarray):
    exact = [float(Fraction(int(time), SECOND)) for time in nanoseconds]
    assert from_units(nanoseconds, FLOAT64).to_pylist() == exact

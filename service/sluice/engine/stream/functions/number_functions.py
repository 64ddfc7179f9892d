"""Scalar functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.stream.functions.column_arguments import Column, Kernel, by_name, is_scalar, none

#: a float64 has no more digits: 10^-340 is below the least one, 10^340 above the largest
MOST_PLACES = 340
HALF = 0.5
#: the mean radius of the earth in metres
EARTH = 6_371_008.8


def remainder(left: Column, right: Column) -> Column:
    return int_remainder(left, right) if pa.types.is_integer(left.type) else float_remainder(left, right)


def int_remainder(left: Column, right: Column) -> Column:
    """The remainder, with the sign of `left`; null for a divisor of 0. A divisor of -1 is replaced by 1, which gives
    the same remainder 0 and whose quotient always fits.
    """
    zero = pc.equal(right, 0)
    divisor = pc.if_else(pc.or_(zero, pc.equal(right, -1)), 1, right)
    rest = pc.subtract(left, pc.multiply(pc.divide(left, divisor), divisor))
    return pc.if_else(zero, none(left), rest)


def float_remainder(left: Column, right: Column) -> Column:
    """The remainder by numpy, which is exact for quotients of any size. pyarrow has no remainder."""
    return by_numpy(np.fmod, left, right)


def by_numpy(function: Callable[..., Any], *columns: Column) -> Column:
    with np.errstate(all="ignore"):
        values = function(*map(numbers, columns))
    result = pa.array(values) if np.ndim(values) else pa.scalar(float(values))
    for column in columns:
        if is_scalar(column) or column.null_count:
            result = pc.if_else(pc.is_valid(column), result, none(result))
    return result


def numbers(column: Column) -> float | np.ndarray:
    """The values for numpy, which has no nulls: 0 takes their place."""
    filled = pc.coalesce(column, pa.scalar(0.0))
    values: float | np.ndarray = filled.as_py() if is_scalar(filled) else filled.to_numpy(zero_copy_only=False)
    return values


def smaller(left: Column, right: Column) -> Column:
    return pc.if_else(pc.less(right, left), right, left)


def larger(left: Column, right: Column) -> Column:
    return pc.if_else(pc.greater(right, left), right, left)


def round_half_away(value: Column, digits: Column | None = None) -> Column:
    """Rounds the float64 `value * 10^digits`, halves away from zero. A value too large to have so many digits stays
    as it is, and the sign of a zero is that of the value.
    """
    places = digits.as_py() if digits is not None else 0
    return by_numpy(partial(_rounded, places=max(-MOST_PLACES, min(MOST_PLACES, places))), value)


def _rounded(value: np.ndarray, places: int) -> np.ndarray:
    powers = [10.0**place for place in (min(abs(places), 308), abs(places) - 308) if place >= 0]
    up, down = (np.multiply, np.divide) if places >= 0 else (np.divide, np.multiply)
    shifted = reduce(up, powers, value)
    coarse = np.abs(shifted) < 2.0**53
    whole = np.trunc(shifted)
    away = np.where(np.abs(shifted - whole) >= HALF, np.sign(shifted), 0.0)  # this difference is exact
    nearest = np.copysign(reduce(down, powers, np.where(coarse, whole + away, 0.0)), value)
    return np.where(coarse, nearest, value)


def sign(value: Column) -> Column:
    return pc.cast(pc.sign(value), value.type)


def nonzero(value: Column) -> Column:
    return pc.not_equal(value, pa.scalar(0, value.type))


def pi() -> Column:
    return pa.scalar(math.pi)


def haversine(latitude: Column, longitude: Column, other_latitude: Column, other_longitude: Column) -> Column:
    """The length of the great circle between two points in degrees, in metres on a sphere of EARTH."""
    return by_numpy(_distance, latitude, longitude, other_latitude, other_longitude)


def _distance(lat: np.ndarray, lon: np.ndarray, other_lat: np.ndarray, other_lon: np.ndarray) -> np.ndarray:
    a, b = np.radians(lat), np.radians(other_lat)
    across = np.sin((b - a) / 2) ** 2
    along = np.cos(a) * np.cos(b) * np.sin(np.radians(np.subtract(other_lon, lon)) / 2) ** 2
    distance: np.ndarray = 2 * EARTH * np.arcsin(np.sqrt(np.minimum(across + along, 1.0)))
    return distance


KERNELS: dict[str, Kernel] = {
    **by_name(remainder, sign, smaller, larger, round_half_away, nonzero, pi, haversine),
    **{name: partial(by_numpy, getattr(np, name)) for name in ("radians", "degrees", "cbrt", "sinh", "cosh", "tanh")},
}

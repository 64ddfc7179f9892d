"""The type timestamp."""

from __future__ import annotations

from sluice.model.types.type_contract import Distance, TimeForm, Type
from sluice.time_units import SECOND


class TimestampType(Type):
    """Times from 1677 to 2262. A value is the number of nanoseconds since 1970-01-01 UTC."""

    word = "timestamp"
    foreign = ("datetime", "date", "time", "timestamptz", "instant")
    empty = 0
    samples = (1, 2)
    sortable = True
    time = TimeForm.INSTANT
    distance = Distance("float64", SECOND, "a size in seconds and whole nanoseconds, as the attribute is a timestamp")


TIMESTAMP = TimestampType()

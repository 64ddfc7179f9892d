"""`sluice replay` over all flights of the year, against pandas' own rolling windows and groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pytest

import sluice
from sluice.files import project_file
from sluice_demo.flights import AIRPORTS, Flights, load


@pytest.fixture(scope="module")
def flights() -> Flights:
    return load()


@pytest.fixture(scope="module")
def made(flights: Flights) -> dict[str, pd.DataFrame]:
    """The tuples that came out, by stream."""
    records = sluice.replay(project_file("examples/flights.yaml"), events(flights), clock_origin="first")
    tuples: dict[str, list[dict[str, Any]]] = {"delays": [], "days": []}
    for record in records:
        if "tuple" in record:
            tuples[record["stream"]].append(record["tuple"])
    return {stream: pd.DataFrame(rows) for stream, rows in tuples.items()}


def events(flights: Flights) -> Iterator[dict[str, Any]]:
    """Each airport has a topic partition, and a mark in it at the end of each day."""
    for day in flights:
        for departure in day.departures:
            place = {"stream": "flights", "topic_partition": AIRPORTS.index(departure.origin)}
            yield {"at": departure.at / 1000, **place, "tuple": orjson.loads(departure.value)}
        for number in range(len(AIRPORTS)):
            yield {"at": day.end / 1000, "stream": "flights", "topic_partition": number, "punct": "window"}


def test_every_average_over_the_last_100_departures(flights: Flights, made: dict[str, pd.DataFrame]) -> None:
    delays = made["delays"]
    assert len(delays) == len(flights.departed)
    for airport in AIRPORTS:
        delay = flights.departed.loc[flights.departed["origin"] == airport, "dep_delay"]
        averages = delay.rolling(100, min_periods=1).mean().to_numpy()
        np.testing.assert_allclose(delays.loc[delays["origin"] == airport, "delay"], averages, 1e-9, 1e-9)


def test_every_day(flights: Flights, made: dict[str, pd.DataFrame]) -> None:
    expected = flights.departed.groupby(["date", "origin"])["dep_delay"].agg(["size", "mean", "max"])
    days = made["days"].set_index(["date", "origin"]).loc[expected.index]
    assert len(made["days"]) == len(expected)
    assert days["departures"].tolist() == expected["size"].tolist()
    np.testing.assert_allclose(days["delay"], expected["mean"], 1e-9, 1e-9)
    assert days["worst"].tolist() == expected["max"].tolist()

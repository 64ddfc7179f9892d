"""Times of a pattern that are read together are those that are read one by one (PA12, PA13)."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from sluice.wire.json.time_patterns import column, nanoseconds

TOGETHER = [
    "%Y-%m-%d %H:%M:%S.%f %z", "%d.%m.%Y %H:%M", "%Y%m%d%H%M%S", "%Y%m%d-%H:%M:%S.%f", "%m/%d/%Y %H:%M:%S", "%Y/%m/%d",
    "%Y-%m-%dT%H:%M:%S%z", "at %H:%M on %d-%m-%Y (%S)",
]  # fmt: skip
ONE_BY_ONE = ["%d/%b/%Y:%H:%M:%S %z", "%y%m%d", "%Y-%j", "%Y-%m-%d %I:%M %p", "%Y-%m-%d%%"]
ROWS = 60


def moments(chance: random.Random) -> list[datetime]:
    first = datetime(1971, 1, 1, tzinfo=UTC)
    zones = [timezone(timedelta(minutes=chance.randrange(-800, 800))) for _ in range(ROWS)]
    return [(first + timedelta(seconds=chance.random() * 6e9)).astimezone(zone) for zone in zones]


def exact(text: str, pattern: str, zone: str) -> int | None:
    with suppress(ValueError):
        return nanoseconds(text, pattern, zone)
    return None


def changed(chance: random.Random, text: str) -> str:
    at = chance.randrange(len(text))
    return text[:at] + chance.choice(["", "0", "9", " ", ":", "x", "\n", "6"]) + text[at + chance.randrange(2) :]


def read(texts: list[str], pattern: str, zone: str = "") -> list[int | None]:
    return column(pa.array(texts, pa.string()), pattern, zone).cast(pa.int64()).to_pylist()


@pytest.mark.parametrize("pattern", TOGETHER)
def test_texts_of_numbers_alone_are_read_together(pattern: str):
    texts = [moment.strftime(pattern) for moment in moments(random.Random(pattern))]
    assert read(texts, pattern) == [nanoseconds(text, pattern, "") for text in texts]


@pytest.mark.parametrize("pattern", [*TOGETHER, *ONE_BY_ONE])
def test_a_text_that_is_read_together_has_the_time_that_it_has_alone(pattern: str):
    chance = random.Random(pattern)
    texts = [changed(chance, moment.strftime(pattern)) for moment in moments(chance) for _ in range(5)]
    times = read(texts, pattern)
    assert [text for text, time in zip(texts, times, strict=True) if time not in (None, exact(text, pattern, ""))] == []


def test_other_patterns_and_zones_are_read_one_by_one():
    assert read(["2024-01-31"], "%Y-%m-%d", "Europe/Berlin") == [None]
    assert read(["2024-01-31", "2024-02-31"], "%Y-%m-%d", "UTC") == [1_706_659_200 * 10**9, None]
    assert [read(["x"], pattern) for pattern in ONE_BY_ONE] == [[None]] * len(ONE_BY_ONE)

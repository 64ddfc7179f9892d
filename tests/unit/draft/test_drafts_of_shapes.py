"""A draft runs as it is, and its results are right: records of public shapes with made-up values."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from sluice.config.load import load_text
from sluice.draft.draft_pipeline import draft
from sluice.draft.sampled_records import DraftError, Sampled, sample
from sluice.replayer.player import replay

SECOND = 1_700_000_000


class Shape(NamedTuple):
    """Records, the attribute that the draft averages (None: none), the one that groups them, and lines of the draft."""

    records: Sequence[Mapping[str, Any]]
    averaged: str | None
    group: str | None = None
    lines: Sequence[str] = ()
    absent: Sequence[str] = ()


def rows(count: int, **columns: Any) -> list[dict[str, Any]]:
    """Records. A column is a list of values that repeat, or a function of the record's number; `...` is left out."""
    of = {name: column if callable(column) else lambda n, c=column: c[n % len(c)] for name, column in columns.items()}
    listed = [{name: column(n) for name, column in of.items()} for n in range(count)]
    return [{name: value for name, value in row.items() if value is not ...} for row in listed]


SHAPES = {
    "trades": Shape(
        rows(30, symbol=["IBM", "SAP", "IBM"], price=lambda n: 1.5 * n, size=[3, 4, 7, 1],
             time=lambda n: f"2013-01-01T10:00:{n:02}Z"), "price", "symbol",
        ["      time: timestamp ", "    event_time: {attribute: time, lag: 10s}"],
    ),
    "four sensors, of which each measures something else": Shape(
        rows(40, sensor=["a", "b", "c", "d"], temp=lambda n: 12.44 + n if n % 4 < 2 else ...,
             humidity=lambda n: 40.5 + n if n % 4 == 2 else None), "temp", "sensor",
        ["      temp: float64? ", "average_temp: Average(temp)"], ["defaults"],
    ),
    "whole numbers that some records lack": Shape(
        rows(24, room=["a", "b"], temp=[20, 21, None, 23, ..., 25]), "temp", "room", ["      temp: int64? "],
    ),
    "a value that all records have before one that some lack": Shape(
        rows(24, room=["a", "b"], temp=[20.5, None, 22.5], battery=[99.5, 98.25]), "battery", "room",
    ),
    "aircraft, with an altitude that is a number or a word": Shape(
        rows(20, hex=["3c6444", "3c6445"], alt_baro=lambda n: "ground" if n % 5 == 0 else 1000 + n, gs=[101.5, 99.25],
             squawk=[1000, 7000], now=lambda n: SECOND + n / 2), "gs", "hex",
        ["      alt_baro: {type: string, coerce: true} ", "      now: {type: timestamp, unit: s} "],
    ),
    "an order book, with lists of lists of texts": Shape(
        rows(12, s=["BNBBTC"], u=lambda n: 160 + n, E=lambda n: (SECOND + n) * 1000, a=[[["0.0026", "100"]]],
             b=[[["0.0024", "10"], ["0.0022", "5"]], []]), None, None,
        ["      b: list<list<string>> ", "      E: {type: timestamp, unit: ms} "],
    ),
    "lists that are always empty": Shape(
        rows(12, vehicle=["v1", "v2"], speed=[30, 31, 29], tags=[[]], legs=[[[]], []]), "speed", "vehicle",
        ['      # left out: "tags": its lists are always empty', '      # left out: "legs": its lists are always empty',
         "        average_speed: Average(float64(speed))"],
    ),
    "orders, with ids and codes in front": Shape(
        rows(20, orderId=lambda n: 10_000 + 7 * n, user_id=[501, 502], zip=[10115, 20095], statusCode=[200, 404],
             order_total=[17, 18, 20], country=["DE", "FR"]), "order_total", "country",
    ),
    "edits, with numbers that only their values show to be ids": Shape(
        rows(20, rc=lambda n: 1_500_000 + 13 * (n * 7 % 20), page=lambda n: 3 * n, wiki=["enwiki", "dewiki"],
             timestamp=lambda n: SECOND + n, delta=[-5, 12, 7]), "delta", "wiki",
        ["      timestamp: {type: timestamp, unit: s} ", "    event_time: {attribute: timestamp, lag: 10s}"],
    ),
    "earthquakes": Shape(
        rows(16, net=["us", "ci"], time=lambda n: (SECOND + n) * 1000, updated=lambda n: (SECOND + n) * 1000 + 7,
             tsunami=[0], mag=[4.5, 2.25, 3.0], geometry=[{"type": "Point"}]), "mag", "net",
        ["      time: {type: timestamp, unit: ms} ", "    event_time: {attribute: time, lag: 10s}"],
    ),
    "a log of requests": Shape(
        rows(16, ts=lambda n: SECOND + n / 8, host=["a", "b"], port=[443, 8443], status=[200, 500], version=[2],
             bytes=[512, 2048, 77]), "bytes", "host",
        ["      ts: {type: timestamp, unit: s} ", "Average(float64(bytes))"],
    ),
    "a system log, whose numbers are codes": Shape(
        rows(16, host=["a", "b"], severity=[3, 6], facility=[1, 4], priority=[11, 38], node=[7, 9, 8],
             msg=["up", "down"]), None, "host",
    ),
    "microseconds": Shape(
        rows(16, device=["d1", "d2"], at=lambda n: (SECOND + n) * 10**6, v=[1, 2]), "v", "device",
        ["      at: {type: timestamp, unit: us} "],
    ),
    "spans in nanoseconds": Shape(
        rows(16, service=["s1", "s2"], startTimeUnixNano=lambda n: (SECOND + n) * 10**9, traceNumber=lambda n: n,
             durationMs=[1.5, 7.25]), "durationMs", "service", ["startTimeUnixNano: {type: timestamp, unit: ns}"],
    ),
    "positions": Shape(
        rows(16, bus=["b1", "b2"], lat=[52.5, 52.6], lon=[13.4, 13.3], speedKmh=[30, 31],
             lastSeen=lambda n: SECOND + n), "speedKmh", "bus", ["      lastSeen: {type: timestamp, unit: s} "],
    ),
    "weather": Shape(
        rows(16, city=["Berlin", "Paris"], cityId=[2950159, 2988507], dt=lambda n: SECOND + 600 * n, humidity=[81, 64]),
        "humidity", "city", ["      dt: {type: timestamp, unit: s} "],
    ),
    "seconds that some records lack": Shape(
        rows(16, sensor=["a", "b"], measured_at=lambda n: SECOND + n if n % 4 else None, rssi=[-60, -71]),
        "rssi", "sensor", ["      measured_at: {type: timestamp?, unit: s} "],
    ),
    "ten digits that are no time": Shape(
        rows(16, phone=[4_030_123_456, 4_030_123_457], plan=["a", "b"], cost=[5, 6]), "cost", "plan",
        absent=["phone: {", "attribute: phone"],
    ),
    "only keys": Shape(rows(16, id=lambda n: n, type=["a", "b"], postcode=[1, 2, 3]), None, "type"),
}  # fmt: skip


def drafted(records: Sequence[Mapping[str, Any]]) -> str:
    sampled = sample("records", [Sampled(json.dumps(one).encode(), None) for one in records], {})
    return draft("records", sampled, "f.yaml", {"bootstrap.servers": "localhost:9092"}, {})


def averages(shape: Shape) -> list[tuple[Any, int, float | None]]:
    """What the draft should give: of each record its group, and the number and mean of the last ten, without null."""
    seen, expected = defaultdict(list), []
    for record in shape.records:
        group = record[shape.group] if shape.group else None
        seen[group].append(record.get(shape.averaged) if shape.averaged else None)
        last = seen[group][-10:]
        values = [value for value in last if value is not None]
        expected.append((group, len(last), sum(values) / len(values) if values else None))
    return expected


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_draft_runs_as_it_is_with_right_results(shape):
    text = drafted(shape.records)
    loaded = load_text(text, "f.yaml", environment=None)
    (stream,) = loaded.inputs
    events = [{"at": n, "stream": stream.name, "record": {"value": one}} for n, one in enumerate(shape.records)]
    found = [one["tuple"] for one in replay(loaded, events) if one["stream"] == "results" and "tuple" in one]
    expected = averages(shape)
    assert [(one.get(shape.group), one["tuples"]) for one in found] == [row[:2] for row in expected]
    if shape.averaged:
        assert [one[f"average_{shape.averaged}"] for one in found] == pytest.approx([row[2] for row in expected])
    else:
        assert "average" not in text


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_draft_says(shape):
    text = drafted(shape.records)
    for line in shape.lines:
        assert line in text
    for words in shape.absent:
        assert words not in text


@pytest.mark.parametrize(
    "value",
    [b"\0", b"\0\0\0\0\1", b"\0" * 12, b'\0{"a":1}', b"\0\xff\xff\xff\xffabc", b"\0{\0}\0\0\0\0", b"\0\7\7\7\7\7\7\7"],
)
def test_a_zero_byte_alone_is_no_schema_of_a_registry(value):
    with pytest.raises(DraftError, match="none of the 1 sampled records of t is a JSON object"):
        sample("t", [Sampled(value, None)], {})


@pytest.mark.parametrize("number", [1, 17, 100_001, 16_777_215])
def test_a_zero_byte_an_id_and_a_body_are(number):
    with pytest.raises(DraftError, match=rf"have a schema of a registry \(id {number}\)"):
        sample("t", [Sampled(b"\0" + number.to_bytes(4, "big") + b"abc", None)], {})

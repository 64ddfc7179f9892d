"""Which attributes of integers the page shows as times."""

from __future__ import annotations

from sluice.config.load import load_text
from sluice.json_texts import with_digits
from sluice.page.times import shown, time_units

FILE = """
pipeline: shop
kafka: {bootstrap.servers: "localhost:9092"}
streams:
  orders:
    topic: orders
    schema: {shop: string, n: int64, at: int64}
    event_time: {attribute: at, lag: 5, resolution: milliseconds}
  quotes: {topic: quotes, schema: {shop: string, t: timestamp}, event_time: {attribute: t, lag: 5}}
  same: {}
  out: {topic: out}
  pairs: {topic: pairs}
operators:
  - {name: through, map: orders, output: {same: {moved: at, later: at + 1000, n: n}}}
  - name: panes
    aggregate: orders
    window: timeInterval, intervalDuration(60)
    output: {out: {from: intervalStart(), last: Max(at), many: Count(), index: paneIndex(), sum: Sum(n)}}
  - name: rate
    join: {left: orders, right: quotes}
    window: asOf
    output: {pairs: {at: left.at, n: left.n, t: right.t}}
"""


def test_times_are_the_event_times_and_what_is_one_of_them():
    units = time_units(load_text(FILE, "shop.yaml", environment=None))
    millisecond = 1_000_000
    assert units["orders"] == {"at": millisecond}
    assert units["same"] == {"moved": millisecond}
    assert units["out"] == {"from": millisecond, "last": millisecond}
    assert units["pairs"] == {"at": millisecond}
    assert units.get("quotes", {}) == {}


def test_a_number_in_a_value_is_shown_with_its_digits():
    assert shown(with_digits('{"id": 12345678901234567890, "price": 1.10}'), None) == (
        '{"id": 12345678901234567890, "price": 1.10}'
    )


def test_a_value_is_shown_as_a_time_only_if_it_is_one():
    assert shown(1_714_557_600_500, 1_000_000) == "2024-05-01 10:00:00.500"
    assert shown(1_714_557_600_500, None) == "1714557600500"
    assert shown(None, 1_000_000) == "null"


def test_values_that_are_no_texts_are_json():
    values = ["a", None, True, 1.5, 7, {"id": 1, "name": None}, [1, "\u00e9"]]
    assert [shown(value, None) for value in values] == [
        "a", "null", "true", "1.5", "7", '{"id": 1, "name": null}', '[1, "\u00e9"]',
    ]  # fmt: skip

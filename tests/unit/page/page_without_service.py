"""A page of a pipeline without a service: its history and the answers of its state servers are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sluice.config.load import load_text
from sluice.kafka.batch_report import Entry, Report
from sluice.page.history import Batch, History
from sluice.page.pipeline_pages import PipelinePage
from sluice.time_units import SECOND

FILE = """
pipeline: shop
kafka: {bootstrap.servers: "localhost:9092"}
streams:
  orders:
    topic: orders
    schema: {shop: string, amount: float64, at: timestamp}
    event_time: {attribute: at, lag: 5}
  turnover: {topic: turnover}
  wrong: {topic: wrong}
dead_letters: wrong
operators:
  - name: per_minute
    aggregate: orders
    window: timeInterval, intervalDuration(60), partitioned
    partition_by: [shop]
    output: {turnover: {shop: shop, minute: intervalStart(), amount: Sum(amount)}}
"""
#: 2024-05-01 10:00:00 UTC, seconds
START = 1_714_557_600
NOW = float(START + 600)

Answers = Callable[[int, Mapping[str, Any]], "dict[str, Any] | None"]


def at(second: float) -> int:
    """A time, in nanoseconds since 1970."""
    return round((START + second) * SECOND)


def answer(bucket: int = 0, **more: Any) -> dict[str, Any]:
    """What a state server answers: topic partition 1 is a minute behind topic partition 0."""
    partitions = [
        {"watermark": at(100), "last_item": at(105), "idle": False},
        {"watermark": at(40), "last_item": at(45), "idle": False},
    ]
    return {
        "bucket": bucket, "version": 3, "clock": at(105), "due": None, "held": 1000 * (bucket + 1),
        "streams": {"orders": {"watermark": at(40), "topic_partitions": partitions}}, "waiting": {}, "finals": {},
        "sizes": {"per_minute": [3, 90]}, "keys": ["oslo", "bergen"],
    } | more  # fmt: skip


WINDOW = {
    "operator": "per_minute", "window": "timeInterval, intervalDuration(60.0), partitioned", "key": "oslo",
    "clock": "2024-05-01T10:01:45+00:00", "tuples": 2,
    "policy": {"at": [{"time": float(START + 10), "tuples": 1}, {"time": float(START + 30), "tuples": 1}]},
}  # fmt: skip


def records() -> dict[str, list[dict[str, Any]]]:
    """The last records, newest first."""
    value = {"shop": "oslo", "minute": "2024-05-01T10:00:00Z", "amount": 3.5}
    firing = {
        "at": START * 1000 + 60_000, "topic_partition": 0, "offset": 7, "key": "oslo", "mark": "window",
        "event": {"at": START + 60.0, "stream": "turnover", "topic_partition": 0, "tuple": value},
    }  # fmt: skip
    letter = {
        "at": START * 1000, "topic_partition": 0, "offset": 1, "key": None, "reason": "not JSON: <b>at byte 3</b>",
        "from": "orders/1", "from_offset": "12", "truncated": False,
        "event": {
            "at": float(START), "stream": "orders", "topic_partition": 1, "offset": 12, "record": {"value": "{x"},
        },
    }  # fmt: skip
    return {"turnover": [firing, firing | {"offset": 6, "key": "<i>"}], "wrong": [letter]}


def page(
    text: str = FILE, inspect: Answers | None = lambda bucket, _: answer(bucket), buckets: int = 2
) -> PipelinePage:
    """The page of a pipeline that has written three batches."""
    pipeline = load_text(text, "shop.yaml", environment=None)
    times = iter([NOW - 600])
    history = History(lambda: next(times, NOW))
    for number in range(3):
        report = Report(
            read={"orders": {"tuple": 600}}, written={"turnover": {"tuple": 6, "window": 6}},
            dead_letters={"orders": {"not JSON": 1}}, state={"held": 3000}, clock=at(105),
            operators={"per_minute": {"in": 600, "out": 6, "windows": 6, "partitions": 3, "tuples": 90}},
            watermarks={"orders": at(40)},
            slowest={"orders": [[1, at(40), at(45), False], [0, at(100), at(105), False]]},
        )  # fmt: skip
        history.batch_written(Entry("shop", "id", number, round(NOW * 1000) - 1000, 0, report))
        phases = {"triggerExecution": 0.3, "addBatch": 0.2, "walCommit": 0.05}
        batch = Batch(number, "2024-05-01T10:00:00Z", 600, phases)
        history.batch_ended(batch, {("orders", 0): 880, ("orders", 1): 900}, {("orders", 0): 1000, ("orders", 1): 900})
    found = PipelinePage(pipeline, histories=[history], records=records, now=lambda: NOW)
    found.stages[0].running(buckets, {"orders": 2, "turnover": 1, "wrong": 1}, inspect)
    return found

"""What the page of the service costs a batch, in microseconds: `python -m benchmarks.page_cost`.

Each number is the least of many calls, so that it does not depend on what else the machine does.

The thread of a batch does nothing for the page. The threads that receive the entry of the ledger and Spark's progress
report store them for it; they and the requests of browsers run in the process of the direct batches, and hold the
interpreter's lock. The fork is what a state server needs for the request of an open page.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

import numpy as np

from sluice.config.load import load_text
from sluice.kafka.batch_report import Entry, Report
from sluice.page.history import Batch, History
from sluice.page.pipeline_pages import PipelinePage
from sluice.page.pipeline_status import status

REPEATS = 1001
PHASES = {"triggerExecution": 0.1, "addBatch": 0.05, "queryPlanning": 0.01, "walCommit": 0.01, "latestOffset": 0.01}
ABOUT = {
    "state": "running",
    "trouble": None,
    "file": "shop.yaml",
    "held_back": [],
    "role": "leader",
    "since": 0.0,
    "starts": 1,
}
FILE = """
pipeline: shop
streams:
  orders: {topic: orders, schema: {shop: string, amount: float64}}
  turnover: {topic: turnover}
operators:
  - name: totals
    aggregate: orders
    window: tumbling, time(60), partitioned
    partition_by: [shop]
    output: {turnover: {shop: shop, amount: Sum(amount)}}
"""


def least_us(call: Callable[[], object], repeats: int = REPEATS) -> float:
    took = []
    for _ in range(repeats):
        began = time.perf_counter_ns()
        call()
        took.append(time.perf_counter_ns() - began)
    return min(took) / 1000


def entry(streams: int) -> Entry:
    counts = {f"s{n}": {"tuple": 1000, "window": 10} for n in range(streams)}
    report = Report(read=counts, written=counts, operators=counts, state={"held": 10**6})
    return Entry("shop", "id", 1, time.time_ns() // 10**6, 0, report)


def measured() -> dict[str, float]:
    found: dict[str, float] = {}
    for partitions in (1, 64, 1000):
        history = History()
        offsets = {("orders", n): 1000 for n in range(partitions)}
        batch, one = Batch(1, "2026-01-01T00:00:00Z", 1000, PHASES), entry(4)
        found[f"batch_written, {partitions} topic partitions"] = least_us(lambda h=history, e=one: h.batch_written(e))
        found[f"batch_ended, {partitions} topic partitions"] = least_us(
            lambda h=history, b=batch, o=offsets: h.batch_ended(b, o, o)
        )
        page = PipelinePage(load_text(FILE, "shop.yaml", environment=None), histories=[history], records=dict)
        found[f"an answer of /api/pipelines/NAME, {partitions} topic partitions"] = least_us(
            lambda p=page: json.dumps(status(p, ABOUT)), 51
        )
    for megabytes in (0, 256, 1024):
        held = np.ones(megabytes << 17)
        found[f"fork of a process of {megabytes} MiB"] = least_us(fork, 21)
        del held
    return found


def fork() -> None:
    if child := os.fork():
        os.waitpid(child, os.WNOHANG)
    else:
        os._exit(0)


if __name__ == "__main__":
    for what, microseconds in measured().items():
        print(f"{microseconds:10,.1f} us  {what}")

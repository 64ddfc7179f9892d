"""`make bench-state`: what a batch costs over a large state and over a small one, and how long a restart takes.

The state is planted in the checkpoint of a service that has read one record; then the service starts on it and reads
batches of records over random keys: all in the topic before, so that each batch is full. `--alone` does without Kafka
and Spark: one bucket, as its state server has it, also while a snapshot is being written.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml
from confluent_kafka import Producer

from benchmarks.load import PARTITIONS, START, make_topic
from benchmarks.machine import machine
from benchmarks.running import batches, service
from sluice.batch.packed_rows import RECORDS, Packed, pack
from sluice.batch.query_plan import Plan
from sluice.checkpoint.checkpoint_identity import FILE
from sluice.columns.key_bytes import key_bytes, partition_for
from sluice.config.load import load_text
from sluice.engine.graph import Clock, Graph, GraphState
from sluice.engine.stream.items import TUPLE, Items
from sluice.kafka.batch_report import Entry
from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.model.spec import Pipeline
from sluice.processes import processors
from sluice.state.bucket import Bucket, folder_of

MILLISECOND = 1_000_000
CHUNK = 200_000
#: batches before those that count: the virtual machine compiles, and pages of memory are seen for the first time
WARM_UP = 60
HEAD = (
    "| keys | tuples held | state MB | restart s | batch ms | worst | written KB a batch | read KB |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)
HEAD_ALONE = (
    "| keys | tuples held | state MB | made again s | batch ms | worst | snapshot s | batch ms meanwhile | worst |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def pipeline_text(name: str, options: argparse.Namespace) -> str:
    """A file whose names are this run's own."""
    window = options.window or f"sliding, count({options.tuples}), count(1), partitioned"
    output = {"k": "k", "n": "Count()", "s": "Sum(v)", "m": "Max(v)"}
    operator: dict[str, Any] = {"aggregate": "records", "window": window, "partition_by": ["k"]}
    return yaml.safe_dump({
        "pipeline": name, "clock": "records", "max_records_per_batch": options.batch, "buckets": options.buckets,
        "durability": options.durability,
        "streams": {
            "records": {"topic": f"{name}-records", "schema": {"k": "string", "v": "float64"}},
            "results": {"topic": f"{name}-results", "marks": "none", "partitions": 2},
        },
        "operators": [{"name": "measured", **operator, "output": {"results": output}}],
    })  # fmt: skip


# ---- planting --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a bucket: their texts, and their numbers among all."""

    texts: pa.StringArray
    own: np.ndarray

    @classmethod
    def of(cls, keys: int, buckets: int, bucket: int) -> Keys:
        texts = pa.array([f"k{key}" for key in range(keys)])
        return cls(texts, np.flatnonzero(partition_for(key_bytes([texts]), buckets) == bucket))

    def tuples(self, keys: np.ndarray, first: int) -> dict[str, pa.Array]:
        return {
            "k": self.texts.take(pa.array(keys)),
            "v": pa.array((np.arange(first, first + len(keys)) * 7919 % 1000) / 10),
        }


def planted(graph: Graph, keys: Keys, tuples: int) -> GraphState:
    """A state that was given so many tuples of each key, and up to as many again, in random order."""
    chance, state, first = np.random.default_rng(7), graph.initial(), 0
    more = chance.integers(0, tuples, len(keys.own))
    for number in range(2 * tuples):
        order = chance.permutation(keys.own[more > number - tuples])
        for chunk in np.array_split(order, max(1, len(order) // CHUNK)):
            graph.feed(state, {"records": _items(keys, chunk, first)}, Clock(START * MILLISECOND, START * MILLISECOND))
            first += len(chunk)
    return state


def _items(keys: Keys, chosen: np.ndarray, first: int) -> Items:
    count = len(chosen)
    at, number = np.full(count, START * MILLISECOND), np.full(count, -1, np.int32)
    tuples = pa.record_batch(keys.tuples(chosen, first))
    return Items(
        np.arange(count), at, np.full(count, TUPLE, np.int8), number + 1, number, pa.array([], pa.binary()), tuples
    )


def plant(pipeline: Pipeline, checkpoint: Path, buckets: int, keys: int, tuples: int) -> None:
    """Puts such a state in the place of what each bucket of a stopped service has."""
    query = json.loads((checkpoint / FILE).read_text())["query"]
    plan = Plan(pipeline, query, "s", str(checkpoint), buckets, {"records": PARTITIONS, "results": 2})
    for number in range(buckets):
        bucket = Bucket(plan, number)
        version = bucket.newest()
        for old in folder_of(plan, number).iterdir():
            old.unlink()
        bucket.install(version, planted(bucket.graph, Keys.of(keys, buckets, number), tuples))


# ---- the service -----------------------------------------------------------------------------------------------------


def through_kafka(bootstrap: str, scratch: Path, keys: int, options: argparse.Namespace) -> str:
    name = f"state-{keys}"
    text = pipeline_text(name, options)
    for topic in ("records", "results"):
        make_topic(bootstrap, f"{name}-{topic}")
    send(bootstrap, f"{name}-records", np.zeros(1, np.int64))
    with service(text, bootstrap, scratch / name) as running:
        batches(running, bootstrap, name, 1)
        time.sleep(1)  # until Spark has it in its log, too
    checkpoint = scratch / name / "checkpoint"
    plant(load_text(text, name), checkpoint, options.buckets, keys, options.tuples)
    count = WARM_UP + options.batches
    chance = np.random.default_rng(1)
    send(bootstrap, f"{name}-records", chance.integers(0, keys, count * options.batch))
    began = time.time()
    with service(text, bootstrap, scratch / name) as running:
        entries = batches(running, bootstrap, name, 1 + count * options.batch)[1:]
    return row(keys, entries, entries[0].at / 1000 - began)


def send(bootstrap: str, topic: str, keys: np.ndarray) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for number, key in enumerate(keys.tolist()):
        value = b'{"k":"k%d","v":%.1f}' % (key, number * 7919 % 1000 / 10)
        producer.produce(topic, value, partition=number % PARTITIONS, timestamp=START + number)
        if number % CHUNK == 0:
            producer.flush()
    producer.flush()


def row(keys: int, entries: list[Entry], restart: float) -> str:
    """Of the batches after the warm-up, from commit to commit."""
    counted = entries[WARM_UP - 1 :]
    took = [after.at - before.at for before, after in pairwise(counted)]
    state = [entry.report.state for entry in counted[1:]]
    written = statistics.mean(one["written"] for one in state) / 1e3
    held, tuples = state[-1]["held"] / 1e6, counted[-1].report.operators["measured"]["tuples"]
    read = sum(one["read"] for one in state) / 1e3
    return (
        f"| {keys:,} | {tuples:,} | {held:,.0f} | {restart:.1f} | {statistics.median(took):.0f} | {max(took):.0f} "
        f"| {written:,.0f} | {read:,.0f} |"
    )


# ---- a bucket alone --------------------------------------------------------------------------------------------------


def alone(scratch: Path, keys: int, options: argparse.Namespace) -> str:
    """The first of the buckets, in this process."""
    pipeline = load_text(pipeline_text("alone", options), "alone")
    plan = Plan(pipeline, "q", "s", str(scratch / str(keys)), options.buckets, {"records": PARTITIONS, "results": 2})
    chosen = Keys.of(keys, options.buckets, 0)
    bucket = Bucket(plan, 0)
    bucket.install(1, planted(bucket.graph, chosen, options.tuples))
    bucket = Bucket(plan, 0)
    chance = np.random.default_rng(1)
    each = options.batch // options.buckets
    load = [_packed(chosen, chance.choice(chosen.own, each)) for _ in range(WARM_UP + 2 * options.batches)]

    def feed(number: int) -> float:
        begin = time.perf_counter()
        bucket.feed(number + 1, load[number])
        return time.perf_counter() - begin

    restart = feed(0)
    took = [feed(number) for number in range(1, WARM_UP + options.batches)][WARM_UP:]
    begin = time.perf_counter()
    bucket.write_snapshot()
    meanwhile, number = [], WARM_UP + options.batches
    while bucket.writing and number < len(load):
        meanwhile.append(feed(number) + (time.perf_counter() - begin if not meanwhile else 0))
        number += 1
    while bucket.writing:
        time.sleep(0.01)
    snapshot = time.perf_counter() - begin
    tuples = bucket.sizes()["measured"][1]
    figures = [restart, *_ms(took), snapshot, *_ms(meanwhile or [0.0])]
    last = " | ".join(f"{figure:.1f}" for figure in figures)
    return f"| {keys:,} | {tuples:,} | {bucket.held / 1e6:,.0f} | {last} |"


def _packed(keys: Keys, chosen: np.ndarray) -> list[Packed]:
    count = len(chosen)
    columns = keys.tuples(chosen, 0)
    batch = pa.record_batch({
        "@number": np.arange(count, dtype=np.uint32) * 2, "@stamp": np.full(count, START * MILLISECOND),
        "@kind": np.full(count, TUPLE, np.int8), "k": columns["k"], "v": columns["v"],
    })  # fmt: skip
    times = {"start": START * MILLISECOND, "end": START * MILLISECOND}
    return [(RECORDS, pack(batch, {"stream": "records", "first": 0, "number": 0, "offset": 0, **times}))]


def _ms(took: list[float]) -> tuple[float, float]:
    return statistics.median(took) * 1000, max(took) * 1000


def main() -> None:
    options = _options()
    sizes = [size for size in (options.fewer, options.keys) if size]
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        print(f"{machine()}\n\n{HEAD_ALONE if options.alone else HEAD}", flush=True)
        if options.alone:
            for keys in sizes:
                print(alone(Path(scratch), keys, options), flush=True)
            return
        with EmbeddedBroker(heap="1g") as broker:
            for keys in sizes:
                print(through_kafka(broker.bootstrap, Path(scratch), keys, options), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-state", description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--fewer", type=int, default=10_000, help="keys to compare with; 0: none")
    parser.add_argument("--tuples", type=int, default=100, help="held by each key")
    parser.add_argument("--batch", type=int, default=10_000, help="records")
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--buckets", type=int, default=processors())
    parser.add_argument("--window", default="", help="instead of sliding, count(tuples), count(1), partitioned")
    parser.add_argument("--durability", default="process", choices=["process", "machine"])
    parser.add_argument("--alone", action="store_true", help="one bucket, without Kafka and Spark")
    parser.add_argument("--scratch", help="folder for the checkpoints, which need twice the state")
    return parser.parse_args()


if __name__ == "__main__":
    main()

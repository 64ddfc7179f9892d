"""The pipeline of the simulation, its records, and what must come out of them, calculated from the rules over lists."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple

from sluice.config.load import load_text
from sluice.kafka.topics import Topic
from sluice.model.spec import Pipeline
from tests.chaos.simulation.simulated_broker import Kafka, Record

NAME = "sim"
FILE = """
pipeline: sim
kafka: {bootstrap.servers: simulated:9092}
clock: records
dead_letters: dead
streams:
  in: {topic: in, schema: {k: string, v: int64}}
  sums: {topic: sums, marks: none}
  ranks: {topic: ranks}
  dead: {topic: dead}
operators:
"""
#: by the stream that it writes
OPERATORS = {
    "sums": """
  - name: sums
    aggregate: in
    window: sliding, count(4), count(1), partitioned
    partition_by: [k]
    aggregate_incomplete_windows: true
    output: {sums: {k: k, n: Count(), s: Sum(v), last: Last(v)}}
""",
    "ranks": """
  - name: ranks
    sort: in
    order_by: {v: desc}
    window: tumbling, count(3), partitioned
    partition_by: [k]
    output: [ranks]
""",
}
INPUTS, OUTPUTS = 2, 6
#: number of tuples that fire a window of `ranks`, and that a window of `sums` has
FIRING, LENGTH = 3, 4
KEYS = ["a", "b", "c"]
TOPICS = {"in": INPUTS, "sums": OUTPUTS, "ranks": OUTPUTS, "dead": 1, "sluice.ledger": 1}
#: timestamp of the first record, milliseconds since 1970
FIRST_MS = 1_700_000_000_000
#: how far the timestamps of records that are no JSON are ahead
AHEAD_MS = 600_000


@lru_cache
def pipeline(operators: tuple[str, ...]) -> Pipeline:
    """The pipeline with these operators of OPERATORS."""
    used = [line for line in FILE.splitlines() if not any(f"  {n}:" in line for n in OPERATORS.keys() - {*operators})]
    return load_text("\n".join([*used, *(OPERATORS[name] for name in operators)]), "sim.yaml")


def topics() -> dict[str, Topic]:
    return {name: Topic(name, count, 1_048_588, id=f"id-{name}") for name, count in TOPICS.items()}


class Sent(NamedTuple):
    partition: int
    data: bytes
    tuple: dict[str, Any] | None


class Load:
    """Numbered tuples, each key in one topic partition; now and then a record that is no JSON."""

    def __init__(self, seeded: Random, count: int) -> None:
        self.sent: list[Sent] = []
        for number in range(count):
            key = seeded.choice(KEYS)
            partition = KEYS.index(key) % INPUTS
            if seeded.random() < 0.06:
                self.sent.append(Sent(partition, b"no JSON %d" % number, None))
            else:
                value = {"k": key, "v": number * 7 % 101}
                self.sent.append(Sent(partition, json.dumps(value).encode(), value))

    def arrive(self, kafka: Kafka, number: int, *, aborted: bool) -> None:
        """Writes a record; with `aborted`, one of a transaction that is aborted before it."""
        partition = kafka.partitions["in", self.sent[number].partition]
        if aborted:
            junk = json.dumps({"k": KEYS[0], "v": 1_000_000}).encode()
            partition.append(Record(None, junk, None, FIRST_MS + number), committed=False)
            partition.append(None, committed=True)
        ahead = 0 if self.sent[number].tuple else AHEAD_MS
        record = Record(None, self.sent[number].data, None, FIRST_MS + number + ahead)
        partition.append(record, committed=True)


Outputs = dict[tuple[str, str], list[Any]]


def expected(sent: Sequence[Sent], operators: Collection[str] = tuple(OPERATORS)) -> Outputs:
    """By stream and key: what must come out of these operators, in order. A firing of `ranks` ends with a mark."""
    values: dict[str, list[int]] = defaultdict(list)
    outputs: Outputs = defaultdict(list)
    for one in sent:
        if one.tuple is None:
            outputs["dead", ""].append(one.data)
            continue
        key, value = one.tuple["k"], one.tuple["v"]
        own = values[key]
        own.append(value)
        window = own[-LENGTH:]
        outputs["sums", key].append({"k": key, "n": len(window), "s": sum(window), "last": value})
        if len(own) % FIRING == 0:
            ranked = sorted(own[-FIRING:], reverse=True)
            outputs["ranks", key] += [*({"k": key, "v": v} for v in ranked), "window"]
    return defaultdict(list, {place: rows for place, rows in outputs.items() if place[0] in {*operators, "dead"}})

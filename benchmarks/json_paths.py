"""`python -m benchmarks.json_paths`: what a path of two levels costs in JSON, against attributes of a flat record.

Processor time of one core per record, of the best of some times, in turn. The records have the same values. With
"others" both have members that no attribute reads: flat ones in the flat record, an object of them in the nested one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.formats import COUNT, fastest
from sluice.model.members import Member, Members
from sluice.model.types import FLOAT64, INT64, STRING, TIMESTAMP, Schema
from sluice.wire.json.json_codec import decode

SCHEMA: Schema = (("id", STRING), ("price", FLOAT64), ("size", INT64), ("time", TIMESTAMP))
NESTED: Members = {name: Member(("payload", "after", name)) for name, _ in SCHEMA}
OTHERS = {"connector": "postgresql", "db": "shop", "lsn": 24023128, "snapshot": "false", "version": "2.7.0.Final"}
ROUNDS = 5


def values(others: Mapping[str, Any], *, nested: bool) -> pa.BinaryArray:
    random = np.random.default_rng(1)
    texts = []
    for number in range(COUNT):
        row = {
            "id": f"S{random.integers(0, 1000)}",
            "price": round(float(random.uniform(1, 500)), 2),
            "size": int(random.integers(1, 10_000)),
            "time": 1_357_041_600 + number,
        }
        record = {"payload": {**({"source": others} if others else {}), "after": row}} if nested else {**others, **row}
        texts.append(json.dumps(record, separators=(",", ":")).encode())
    return pa.array(texts, pa.binary())


def main() -> None:
    pa.set_cpu_count(1)
    print("| record | flat, us | two levels, us | ratio |\n| --- | --- | --- | --- |")
    for name, others in {"attributes alone": {}, "with others": OTHERS}.items():
        flat, deep = values(others, nested=False), values(others, nested=True)
        assert not decode(flat, SCHEMA).bad  # noqa: S101 - it would be no measure
        assert not decode(deep, SCHEMA, members=NESTED).bad  # noqa: S101
        pairs = [
            (fastest(lambda f=flat: decode(f, SCHEMA)), fastest(lambda d=deep: decode(d, SCHEMA, members=NESTED)))
            for _ in range(ROUNDS)
        ]
        of_flat, of_deep = (min(times) for times in zip(*pairs, strict=True))
        print(f"| {name} | {of_flat:.3f} | {of_deep:.3f} | {of_deep / of_flat:.2f} |", flush=True)


if __name__ == "__main__":
    main()

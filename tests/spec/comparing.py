"""Whether two lists of output records are equal, by the section "Comparing" of tests/spec/conformance/README.md."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

Record = dict[str, Any]


def differences(got: list[Record], expected: list[Record], case: dict[str, Any]) -> list[str]:
    """One line per record that differs; empty when the outputs are equal."""
    free = case.get("unordered", {})
    if case["operator"].get("compare") == "tuples":
        got, expected = ([r for r in side if "tuple" in r] for side in (got, expected))
    lines = [
        f"record {n}: got {g}, expected {e}"
        for n, (g, e) in enumerate(zip(ordered(got, free), ordered(expected, free), strict=False))
        if not equal(g, e)
    ]
    if len(got) != len(expected):
        lines.append(f"got {len(got)} records, expected {len(expected)}: got {got}, expected {expected}")
    return lines


def with_groups_in_any_order(case: dict[str, Any]) -> dict[str, Any]:
    """The order of groups is open in SPL (A8); CountByGroup has the same."""
    output = case["operator"].get("output", {})
    counts = [name for name, call in output.items() if call.startswith("CountByGroup(")]
    return case | {"unordered": {"tuples": True, "lists": counts}}


def equal(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= 1e-9 * max(1, abs(a), abs(b)) < math.inf
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    return bool(a == b)


def ordered(records: list[Record], free: dict[str, Any]) -> list[Record]:
    """Lists, then the tuples of a batch, then the batches of an event: each sorted only where its order is free."""
    return [r for _, batches in by_event(records, free) for batch in batches for r in batch]


def by_event(records: list[Record], free: dict[str, Any]) -> Iterator[tuple[int, list[list[Record]]]]:
    for after, group in groupby((with_sorted_lists(r, free) for r in records), key=lambda r: int(r["after"])):
        batches = [sorted(b, key=sort_key) if free.get("tuples") else b for b in cut_after_marks(group)]
        yield after, sorted(batches, key=sort_key) if free.get("batches") else batches


def cut_after_marks(records: Iterable[Record]) -> list[list[Record]]:
    batches: list[list[Record]] = [[]]
    for record in records:
        batches[-1].append(record)
        if "punct" in record:
            batches.append([])
    return [b for b in batches if b]


def with_sorted_lists(record: Record, free: dict[str, Any]) -> Record:
    if "tuple" not in record:
        return record
    row = dict(record["tuple"])
    for name in free.get("lists", []):
        row[name] = sorted(row[name], key=sort_key)
    for first, second in free.get("paired_lists", []):
        pairs = sorted(zip(row[first], row[second], strict=True), key=sort_key)
        row[first], row[second] = [p[0] for p in pairs], [p[1] for p in pairs]
    return record | {"tuple": row}


def sort_key(value: Any) -> tuple[bool, str]:
    """Marks behind tuples, else any fixed order."""
    return isinstance(value, dict) and "punct" in value, json.dumps(value, sort_keys=True, default=str)

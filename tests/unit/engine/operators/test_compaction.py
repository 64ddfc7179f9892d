"""Texts, lists and keys that no window needs are forgotten; of the others nothing changes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sluice.columns.encoding import from_words, to_words
from sluice.columns.interner import Interner
from sluice.engine.operators.compaction import should_compact
from sluice.model.engine_limits import LIMITS, EngineLimits
from sluice.model.types import parse_type
from sluice.testing import run_case

WINDOWS = ["tumbling, count(3)", "sliding, count(3)", "sliding, time(2)", "sliding, delta(n, 2), count(1)"]
#: everything that keeps a word of a text or of a list
OUTPUT = {
    "lists": "Collect(list)", "first": "First(list)", "last": "Last(list)", "most": "ArgMax(text, list)",
    "least": "Min(text)", "greatest": "Max(text)", "nested": "Last(lists)", "numbers": "Last(numbers)",
}  # fmt: skip
SCHEMA = {"list": "list<string>", "lists": "list<list<string>>", "numbers": "list<float64>", "n": "int64"}


def row(n: int) -> dict[str, Any]:
    """Every text but the empty one is new."""
    return {
        "n": n, "k": "ab"[n % 2], "g": f"group {n % 3}", "text": f"{n * 7919 % 101:03}",
        "list": [f"a{n}", "", f"b{n}"][: n % 4], "lists": [[f"c{n}"], [], ["", f"d{n}"]][: n % 4], "numbers": [n / 2],
    }  # fmt: skip


@pytest.mark.parametrize("output", [OUTPUT, {name: OUTPUT[name] for name in OUTPUT if name != "lists"}])
@pytest.mark.parametrize("group_by", [[], ["g"]])
@pytest.mark.parametrize("partition_by", [[], ["k"]])
@pytest.mark.parametrize("window", WINDOWS)
def test_texts_and_lists_of_texts_survive(window, partition_by, group_by, output):
    window += ", partitioned" * bool(partition_by)
    operator = {"window": window, "partition_by": partition_by, "group_by": group_by, "output": output}
    check(operator, [{"at": n, "tuple": row(n)} for n in range(60)])


def test_they_survive_in_panes():
    events = [{"at": n, "watermark": float(n - 2)} if n % 3 == 2 else {"at": n, "tuple": row(n)} for n in range(60)]
    for event in events:
        event.get("tuple", {})["ts"] = float(event["at"])
    check({"window": "timeInterval, intervalDuration(4)", "event_time": "ts"}, events)


def check(operator, events) -> None:
    """What comes out with cleaning after every event is what comes out without any."""
    case = {"operator": {"output": OUTPUT, "schema": SCHEMA} | operator, "input": events}
    expected = run_case(case)
    assert len(expected) > 10
    case |= {"limits": EngineLimits(uncompacted=0)}
    assert run_case(case, [1] * len(events)) == expected


@pytest.mark.parametrize("window", ["sliding, count(40), count(1)", "sliding, time(9.0), count(1)"])
def test_sums_are_the_same_to_the_last_digit(window):
    """Keys pause, their windows become empty, and they get tuples again: only this decides where their blocks begin."""
    choose = random.Random(5)
    events = [{"at": n / 4, "tuple": {"k": f"{n // 60 % 3} {choose.randrange(4)}", "x": choose.uniform(-1e9, 1e9)}}
              for n in range(720)]  # fmt: skip
    output = {"k": "Last(k)", "sum": "Sum(x)", "mean": "Average(x)", "deviation": "SampleStdDev(x)"}
    operator = {"window": f"{window}, partitioned", "partition_by": ["k"], "aggregate_incomplete_windows": True}
    case = {"operator": operator | {"output": output, "schema": {"k": "string", "x": "float64"}}, "input": events}
    expected = run_case(case)
    assert len(expected) > 700
    case |= {"limits": EngineLimits(uncompacted=0)}
    assert run_case(case, [1] * len(events)) == expected
    assert run_case(case, [7] * 110) == expected


def test_names_that_come_and_go_beside_a_million_tuples_are_forgotten_every_250_batches():
    stay = names = 1000
    forgotten = []
    for batch in range(600):
        names += 1000
        if should_compact(LIMITS, names, stay, tuples=1_000_000):
            forgotten.append(batch)
            names = stay
    assert forgotten == [250, 501]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("list<string>", [["a", "", "long " * 20], [], ["é"]]),
        ("list<list<string>>", [[["a"], []], [], [["", "b"], ["c"]]]),
        ("list<list<int64>>", [[[1, -1], []], [[2**63 - 1]]]),
        ("list<boolean>", [[True, False], []]),
        ("list<float64>", [[1.5], [], [-0.0, 1e300]]),
    ],
)
def test_a_list_needs_no_other_entry_of_its_table(type_, values):
    strings, kind = Interner(), parse_type(type_)
    to_words(pa.array(["before"]), parse_type("string"), strings)
    words = to_words(pa.array(values + values), kind, strings)
    assert len(set(words.tolist())) == len(values)
    renamed = strings.keep(words)
    assert strings.count == len(values)
    assert from_words(renamed[words], kind, strings).to_pylist() == values + values


def test_lists_that_look_alike_are_apart():
    """The same letters, cut in other places; and a slice of a longer column."""
    values = pa.array([["x"], ["ab", "c"], ["a", "bc"], ["abc"], ["ab", "c"]])[1:]
    strings = Interner()
    words = to_words(values, parse_type("list<string>"), strings)
    assert np.unique(words).size == 3
    assert from_words(words, parse_type("list<string>"), strings).to_pylist() == values.to_pylist()

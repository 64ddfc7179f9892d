"""Joins as in the reference: worked sequences, surprises, ends, and keys of the pipeline file."""

from __future__ import annotations

import json
from typing import Any

import pytest

import sluice
from sluice.config.load import load_text
from sluice.testing import run_case

Case = dict[str, Any]


def joined(operator: Case, *steps: str, cuts: list[int] | None = None) -> list[str]:
    """What comes out at each step, `(l1,r1) ■`.

    A step is a port and a number with the key in parentheses, `l1(k1)`, or the port's final mark, `l F`. Steps are a
    second apart.
    """
    usual = {
        "kind": "join", "algorithm": "inner", "partition_by_left": [], "partition_by_right": [],
        "equality_left": [], "equality_right": [], "output": {"l": "left.l", "r": "right.r"},
        "default_left": {"l": "DEF", "k": ""}, "default_right": {"r": "DEF", "k": ""},
        "schema_left": {"l": "string", "k": "string"}, "schema_right": {"r": "string", "k": "string"},
    } | operator  # fmt: skip
    outer = {"inner": (), "leftOuter": ("right",), "rightOuter": ("left",), "outer": ("left", "right")}
    for side in ("left", "right"):
        if side not in outer[usual["algorithm"]] or usual.get(f"unmatched_{'right' if side == 'left' else 'left'}"):
            del usual[f"default_{side}"]
    events = [event(n, step) for n, step in enumerate(steps)]
    records = run_case({"operator": usual, "input": events}, cuts)
    return [" ".join(shown(r) for r in records if r["after"] == n) for n in range(len(steps))]


def event(number: int, step: str) -> Case:
    if step == "":
        return {"at": number}
    port, at = {"l": "left", "r": "right"}[step[0]], number
    if step.endswith(" F"):
        return {"at": at, "port": port, "punct": "final"}
    name, _, key = step.rstrip(")").partition("(")
    return {"at": at, "port": port, "tuple": {step[0]: name, "k": key}}


def shown(record: Case) -> str:
    stream = f"{record['stream']}: " if "stream" in record else ""
    if "punct" in record:
        return stream + {"window": "■", "final": "F"}[record["punct"]]
    return f"{stream}({','.join(record['tuple'].values())})"


ON_K = {"equality_left": ["k"], "equality_right": ["k"]}
WORKED = {
    "inner, both count(2), on k": (
        {"left": "sliding, count(2)", "right": "sliding, count(2)", **ON_K},
        {"l1(k1)": "", "l2(k2)": "", "r1(k1)": "(l1,r1) ■", "r2(k9)": ""},
    ),
    "inner, left count(0), right count(1)": (
        {"left": "sliding, count(0)", "right": "sliding, count(1)"},
        {"r1": "", "l1": "(l1,r1) ■", "r2": "", "l2": "(l2,r2) ■"},
    ),
    "inner, both count(1)": (
        {"left": "sliding, count(1)", "right": "sliding, count(1)"},
        {"l1": "", "r1": "(l1,r1) ■", "l2": "(l2,r1) ■", "r2": "(l2,r2) ■"},
    ),
    "leftOuter, one port, left count(1), right count(5), on k": (
        {"left": "sliding, count(1)", "right": "sliding, count(5)", "algorithm": "leftOuter", **ON_K},
        {"l1(k9)": "", "r(k2)": "", "l2(k2)": "(l2,r) (l1,DEF) ■"},
    ),
    "leftOuter, one port, nothing on the right": (
        {"left": "sliding, count(1)", "right": "sliding, count(5)", "algorithm": "leftOuter"},
        {"l1": "", "l2": "(l1,DEF) ■", "l3": "(l2,DEF) ■", "l F": "", "r F": "F"},
    ),
    "leftOuter, two ports, nothing on the right": (
        {"left": "sliding, count(1)", "right": "sliding, count(1)", "algorithm": "leftOuter", "unmatched_left": True},
        {"l1": "", "l2": "unmatched_left: (l1,)"},
    ),
    "leftOuter, one port, left count(0), nothing on the right": (
        {"left": "sliding, count(0)", "right": "sliding, count(5)", "algorithm": "leftOuter"},
        {"l1": "(l1,DEF) ■"},
    ),
    "outer, three ports, both count(1), on k": (
        {"left": "sliding, count(1)", "right": "sliding, count(1)", "algorithm": "outer", **ON_K,
         "unmatched_left": True, "unmatched_right": True},
        {"l1(k1)": "", "r1(k2)": "", "l2(k3)": "unmatched_left: (k1,l1)", "r2(k4)": "unmatched_right: (k2,r1)"},
    ),
    "J10: all partitions of the other side": (
        {"left": "sliding, count(1), partitioned", "partition_by_left": ["k"],
         "right": "sliding, count(1), partitioned", "partition_by_right": ["k"]},
        {"l1(a)": "", "r1(b)": "(l1,r1) ■"},
    ),
    "J9: oldest first, and by order of arrival across partitions": (
        {"left": "sliding, count(3), partitioned", "partition_by_left": ["k"], "right": "sliding, count(0)"},
        {"l1(b)": "", "l2(a)": "", "l3(b)": "", "r1": "(l1,r1) (l2,r1) (l3,r1) ■"},
    ),
    "J12: who met somebody once does not come out alone": (
        {"left": "sliding, count(1)", "right": "sliding, count(1)", "algorithm": "outer", **ON_K},
        {"l1(k)": "", "r1(k)": "(l1,r1) ■", "l2(x)": "", "r2(y)": "", "l3(z)": "(l2,DEF) ■"},
    ),
    "J15: the key of a lonely right tuple that is taken from the left": (
        {"left": "sliding, count(1)", "right": "sliding, count(1)", "algorithm": "rightOuter", **ON_K,
         "output": {"k": "left.k", "r": "right.r"}},
        {"r1(a)": "", "r2(b)": "(,r1) ■"},
    ),
    "J17: both count(0) never match": (
        {"left": "sliding, count(0)", "right": "sliding, count(0)", "algorithm": "outer"},
        {"l1": "(l1,DEF) ■", "r1": "(DEF,r1) ■"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("operator", "table"), [pytest.param(*case, id=name) for name, case in WORKED.items()])
def test_worked_sequence(operator: Case, table: dict[str, str]):
    assert joined(operator, *table) == list(table.values())
    assert joined(operator, *table, cuts=[1] * len(table)) == list(table.values())


LEAVES_AFTER_2 = {"left": "sliding, time(2)", "right": "sliding, count(9)", "algorithm": "leftOuter"}


def test_who_leaves_by_the_clock_comes_out_then_without_a_mark():
    """J19. l1 and l2 are inside for two seconds, and gone as soon as these are over."""
    assert joined(LEAVES_AFTER_2, "l1", "l2", "", "", "") == ["", "", "", "(l1,DEF)", "(l2,DEF)"]


def test_a_side_that_is_final_keeps_what_it_holds():
    """J18: l1 would have left at 2; it still matches r1. l2, which matches no tuple, is never emitted."""
    steps = ("l1(a)", "l2(b)", "l F", "", "", "r1(a)", "r F")
    got = joined(LEAVES_AFTER_2 | ON_K, *steps)
    assert got == ["", "", "", "", "", "(l1,r1) ■", "F"]
    assert joined(LEAVES_AFTER_2 | ON_K, *steps, cuts=[1] * 7) == got


def test_a_key_with_nan_equals_nothing():
    """J16. It is emitted unmatched at the end, and the next tuple matches."""
    operator = {
        "kind": "join", "left": "sliding, count(1)", "right": "sliding, count(1)", "algorithm": "outer",
        "partition_by_left": [], "partition_by_right": [], "equality_left": ["x"], "equality_right": ["y"],
        "output": {"x": "left.x", "y": "right.y"}, "schema_left": {"x": "float64"}, "schema_right": {"y": "float64"},
    }  # fmt: skip
    nan, zero = float("nan"), 0.0
    rows = [("left", {"x": nan}), ("right", {"y": nan}), ("left", {"x": -zero}), ("right", {"y": zero})]
    events = [{"at": n, "port": port, "tuple": row} for n, (port, row) in enumerate(rows)]
    got = [r["tuple"] for r in run_case({"operator": operator, "input": events}) if "tuple" in r]
    assert json.dumps(got) == json.dumps([{"x": nan, "y": 0.0}, {"x": -0.0, "y": 0.0}, {"x": 0.0, "y": nan}])


# ---- pipelines with joins --------------------------------------------------------------------------------------------


def played(text: str, events: list[Case]) -> list[str]:
    """`after stream values`, after a look that no cut changes it."""
    pipeline = load_text(text, "pipeline.yaml", environment=None)
    whole = list(sluice.replay(pipeline, events))
    for batch in (1, 2, 5):
        assert list(sluice.replay(pipeline, events, batch=batch)) == whole, f"batches of {batch}"
    return [
        f"{r['after']} {r['stream']} " + (" ".join(map(str, r["tuple"].values())) if "tuple" in r else r["punct"])
        for r in whole
    ]


SELF = """
pipeline: self
streams:
  people: {topic: people, schema: {id: int64, boss: int64}}
  pairs: {topic: pairs}
operators:
  - name: bosses
    join: {left: people, right: people}
    window_left: sliding, count(10)
    window_right: sliding, count(10)
    equality_left: [boss]
    equality_right: [id]
    output: {pairs: {id: left.id, boss: right.id}}
"""


def test_a_stream_joined_with_itself():
    """Each tuple comes to the left, then to the right, where it meets itself too."""
    rows = [{"id": 2, "boss": 1}, {"id": 1, "boss": 1}, {"id": 3, "boss": 1}]
    assert played(SELF, [{"at": n, "tuple": row} for n, row in enumerate(rows)]) == [
        "1 pairs 2 1", "1 pairs 1 1", "1 pairs window", "2 pairs 3 1", "2 pairs window",
    ]  # fmt: skip


TWO_AGGREGATES = """
pipeline: two
streams:
  trades: {topic: trades, schema: {symbol: string, price: float64}}
  quotes: {topic: quotes, schema: {symbol: string, ask: float64}}
  paid: {}
  asked: {}
  spread: {topic: spread}
operators:
  - {name: p, aggregate: trades, window: "tumbling, time(10), partitioned", partition_by: [symbol],
     output: {paid: {symbol: symbol, price: Average(price)}}}
  - {name: a, aggregate: quotes, window: "tumbling, time(10), partitioned", partition_by: [symbol],
     output: {asked: {symbol: symbol, ask: Average(ask)}}}
  - name: s
    join: {left: paid, right: asked}
    window_left: sliding, count(1), partitioned
    window_right: sliding, count(1), partitioned
    partition_by_left: [symbol]
    partition_by_right: [symbol]
    equality_left: [symbol]
    equality_right: [symbol]
    output: {spread: {symbol: left.symbol, spread: ask - price}}
"""


def test_a_join_of_two_aggregates():
    """Both windows fire at 10 and at 20; what they give meets on the other side."""
    events = [
        {"at": 1, "stream": "trades", "tuple": {"symbol": "B", "price": 10.0}},
        {"at": 2, "stream": "quotes", "tuple": {"symbol": "A", "ask": 6.0}},
        {"at": 3, "stream": "quotes", "tuple": {"symbol": "B", "ask": 12.0}},
        {"at": 4, "stream": "trades", "tuple": {"symbol": "A", "price": 5.0}},
        {"at": 12, "stream": "trades", "tuple": {"symbol": "A", "price": 8.0}},
        {"at": 25},
    ]
    assert played(TWO_AGGREGATES, events) == [
        "4 spread A 1.0", "4 spread window", "4 spread B 2.0", "4 spread window",
        "5 spread A -2.0", "5 spread window",
    ]  # fmt: skip


FAN_OUT = """
pipeline: fan
streams:
  trades: {topic: trades, schema: {symbol: string, price: int64}}
  large: {}
  small: {}
  both: {topic: both}
  sums: {topic: sums}
operators:
  - {name: l, map: trades, where: price >= 10, output: {large: {symbol: symbol, price: price}}}
  - {name: s, map: trades, where: price < 10, output: {small: {symbol: symbol, price: price}}}
  - name: j
    join: {left: large, right: small}
    window_left: sliding, count(2)
    window_right: sliding, count(2)
    equality_left: [symbol]
    equality_right: [symbol]
    algorithm: leftOuter
    default_right: {price: -1}
    output: {both: {symbol: left.symbol, large: left.price, small: right.price}}
  - {name: a, aggregate: both, window: "tumbling, punct()", output: {sums: {smalls: Collect(small)}}}
"""


def test_the_runs_of_a_join_close_the_windows_behind_it():
    prices = [("A", 10), ("B", 1), ("A", 2), ("B", 20), ("C", 30)]
    events = [{"at": n, "tuple": {"symbol": s, "price": p}} for n, (s, p) in enumerate(prices)]
    assert played(FAN_OUT, [*events, {"at": 9, "punct": "final"}]) == [
        "2 both A 10 2", "2 both window", "2 sums [2]", "2 sums window",
        "3 both B 20 1", "3 both window", "3 sums [1]", "3 sums window",
        "5 both final", "5 sums final",
    ]  # fmt: skip


TIME_FEEDS_PUNCT = """
pipeline: bursts
streams:
  numbers: {topic: numbers, schema: {k: string, x: int64}}
  counts: {}
  ranked: {topic: ranked}
operators:
  - {name: c, aggregate: numbers, window: "tumbling, time(5)", group_by: [k], output: {counts: {k: k, n: Count()}}}
  - {name: r, sort: counts, window: "tumbling, punct()", order_by: {n: desc, k: asc}, output: [ranked]}
"""


def test_a_time_window_feeds_a_sort_by_its_marks():
    events = [{"at": n / 2, "tuple": {"k": k, "x": n}} for n, k in enumerate("abbcca")]
    assert played(TIME_FEEDS_PUNCT, [*events, {"at": 11}]) == [
        "6 ranked a 2", "6 ranked b 2", "6 ranked c 2", "6 ranked window", "6 ranked window",
    ]  # fmt: skip


def test_a_null_default_of_an_attribute_that_is_also_the_size_of_the_window():
    """The attribute is kept twice: as the output has it, which may be null, and as the window compares it."""
    operator = {
        "kind": "join", "algorithm": "outer", "left": "sliding, delta(i, n)", "right": "sliding, count(1)",
        "schema_left": {"i": "int64", "n": "int64"}, "schema_right": {"r": "string"},
        "default_left": None, "default_right": None, "output": {"n": "left.n", "r": "right.r"},
    }  # fmt: skip
    events = [
        {"at": 0, "port": "right", "tuple": {"r": "r1"}},
        {"at": 1, "port": "right", "tuple": {"r": "r2"}},
        {"at": 2, "port": "left", "tuple": {"i": 1, "n": 5}},
    ]
    tuples = [record["tuple"] for record in run_case({"operator": operator, "input": events}) if "tuple" in record]
    assert tuples == [{"n": None, "r": "r1"}, {"n": 5, "r": "r2"}]

"""`rank`, `denseRank`, `rowNumber` and `with_ties` of a sort give what counting gives, for every cut and every division
of the state (RK1 to RK3).
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.load import load_text
from sluice.model.errors import PipelineError
from sluice.model.lateness.late_words import findings
from sluice.model.spreading import layout
from sluice.planning.explain_plan import plan
from sluice.testing import pipeline_of, run_case
from tests.spec.every_cut import check_expected
from tests.spec.strategies import Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked")

SCHEMA = {"k": "string", "i": "int64", "x": "int64?", "f": "float64", "s": "string?", "d": "decimal(2)", "e": "float64"}
RANKS = {"r": "rank()", "dense": "denseRank()", "n": "rowNumber()"}

tuples = st.fixed_dictionaries({
    "k": st.sampled_from("ab"), "i": st.integers(0, 9), "x": st.sampled_from([None, 1, 2]),
    "f": st.sampled_from([0.0, -0.0, 1.5, math.nan, -math.inf]), "s": st.sampled_from([None, "", "a", "é"]),
    "d": st.sampled_from(["1.50", "1.5", "-2"]), "e": st.sampled_from([0.0, 0.5, 1.0, 4.0]),
})  # fmt: skip


@st.composite
def cases(draw: st.DrawFn) -> Case:
    window = draw(st.sampled_from(["tumbling, count(4)", "tumbling, time(2)", "tumbling, punct()",
                                   "timeInterval, intervalDuration(2)"]))  # fmt: skip
    partitioned = draw(st.booleans())
    keys = draw(st.lists(st.sampled_from(["x", "f", "s", "d"]), min_size=1, max_size=2, unique=True))
    operator: dict[str, Any] = {
        "kind": "sort", "window": window + ", partitioned" * partitioned, "schema": SCHEMA,
        "partition_by": ["k"] * partitioned,
        "order_by": [(key, draw(st.sampled_from(["asc", "desc"]))) for key in keys],
        "limit": draw(st.sampled_from([None, 1, 2, 3])), "with_ties": draw(st.booleans()),
        "output": {"k": "k", "i": "i", **{key: key for key in keys}, **RANKS},
    }  # fmt: skip
    if window.startswith("timeInterval"):
        operator |= {"event_time": "e"}
    operator["with_ties"] &= operator["limit"] is not None
    events, at, watermark = [], 0.0, 0.0
    for row in draw(st.lists(st.one_of(tuples, tuples, tuples, st.just("mark")), max_size=25)):
        at += draw(st.sampled_from([0.0, 0.5, 1.0]))
        if row != "mark":
            events.append({"at": at, "tuple": row | {"e": row["e"] + watermark}})
        elif window.startswith("timeInterval"):
            watermark += 2.0
            events.append({"at": at, "watermark": watermark})
        else:
            events.append({"at": at, "punct": "window"})
    return {"operator": operator, "input": events}


def oracle(case: Case) -> list[dict[str, Any]]:
    """The firings of the same sort without limit and ranks; each tuple is compared with all others of its firing."""
    operator = {key: v for key, v in case["operator"].items() if key not in ("limit", "with_ties", "output")}
    found = []
    for firing in firings(run_case({"operator": operator, "input": case["input"]})):
        keys = [
            [one(record["tuple"][key]) for key, _ in operator["order_by"]] for record in firing if "tuple" in record
        ]
        for place, record in enumerate(firing):
            if "tuple" not in record:
                found.append(record)
                continue
            before = [key for key in keys[:place] if key != keys[place]]
            ranks = {"r": 1 + len(before), "dense": 1 + len([*groupby(before)]), "n": place + 1}
            limited = ranks["r" if case["operator"]["with_ties"] else "n"]
            if case["operator"]["limit"] is None or limited <= case["operator"]["limit"]:
                shown = {name: record["tuple"][name] for name in case["operator"]["output"] if name in record["tuple"]}
                found.append(record | {"tuple": shown | ranks})
    return found


def firings(records: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    found: list[list[dict[str, Any]]] = [[]]
    for record in records:
        found[-1].append(record)
        if "punct" in record:
            found.append([])
    return found


def one(value: Any) -> Any:
    """Values that are equal in an order are equal: NaN, and both zeros."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


@given(cases(), cuts)
@settings(max_examples=30, derandomize=True, deadline=None)
def test_random_sorts_and_events(case: Case, batches: list[int]):
    """A cut in front of each event, too; at each the state is saved and loaded."""
    check_expected(oracle, case, [1] * len(case["input"]), batches)


@given(cases(), divisions())
@settings(max_examples=10, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: Case, division: Division):
    check_case(case, division)


# ---- single rules ----------------------------------------------------------------------------------------------------

BEST = {"kind": "sort", "window": "tumbling, count(5)", "order_by": [("x", "desc")]}
EVENTS = [{"at": float(n), "tuple": {"k": key, "x": x}} for n, (key, x) in enumerate(
    [("a", 3), ("b", 5), ("c", 3), ("d", 1), ("e", 3)]
)]  # fmt: skip


def best(**more: Any) -> list[tuple[Any, ...]]:
    operator = BEST | {"output": {"k": "k", **RANKS}} | more
    return [tuple(r["tuple"].values()) for r in run_case({"operator": operator, "input": EVENTS}) if "tuple" in r]


def test_ranks_of_equal_tuples():
    assert best() == [("b", 1, 1, 1), ("a", 2, 2, 2), ("c", 2, 2, 3), ("e", 2, 2, 4), ("d", 5, 3, 5)]


def test_a_limit_with_ties():
    assert [row[0] for row in best(limit=2)] == ["b", "a"]
    assert [row[0] for row in best(limit=2, with_ties=True)] == ["b", "a", "c", "e"]


def test_ranks_are_parts_of_expressions():
    rows = best(output={"place": "string(rank()) + '.' + k", "share": "float64(rank()) / 5.0"})
    assert rows[0] == ("1.b", 0.2)


def test_a_tuple_for_which_an_output_has_no_value_is_a_dead_letter():
    case = {"operator": BEST | {"output": {"q": "6 % (rank() - 2)"}}, "input": EVENTS, "dead_letters": True}
    records = run_case(case)
    assert [r["tuple"]["q"] for r in records if "tuple" in r] == [0, 0]
    assert [r["dead_letter"]["reason"] for r in records if "dead_letter" in r] == [
        "output.q has no value: 6 % (rank() - 2)"
    ] * 3


FILE = """
pipeline: p
streams:
  a: {topic: a, schema: {k: string, x: int64}}
  b: {topic: b}
  c: {topic: c}
operators:
  - name: best
    sort: a
    window: "tumbling, punct(), partitioned"
    partition_by: [k]
    order_by: {x: desc}
    %s
"""


def of(text: str, *more: str):
    return load_text(FILE % text + "\n".join(more), "p", environment=None)


def test_the_plan_says_that_equal_tuples_come_out():
    (step,) = plan(of("limit: 3\n    with_ties: true\n    output: {b: {k: k, r: rank()}}"))[0].steps
    assert step.fires.endswith("; the first 3 tuples in the order come out, and those equal to the last of them")


def test_check_warns_of_an_earlier_event_time_than_that_of_the_input():
    operator = {"kind": "sort", "window": "timeInterval, intervalDuration(2)", "order_by": [("e", "asc")],
                "event_time": "e", "schema": SCHEMA}  # fmt: skip
    late = pipeline_of({"operator": operator | {"output": {"e": "e - 5.0", "r": "rank()"}}, "input": []})
    streams = late.streams | {"output": replace(late.streams["output"], watermarks=True)}
    (finding,) = findings(replace(late, streams=streams))
    assert "up to 5 s behind the watermark" in finding.text
    assert "keep e as it is, and write the other time to an attribute of its own" in finding.text


def test_a_rank_is_no_key_of_an_input():
    count = (
        "  - {name: n, aggregate: b, window: 'sliding, count(1), partitioned', partition_by: [r], output: {c: {r: r}}}"
    )
    assert layout(of("output: {b: {k: k, r: rank()}}", count)).keys is None
    assert layout(of("output: {b: {k: k, r: x}}", count)).why != ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("with_ties: true\n    output: [b]", "operators[0].with_ties: expected with_ties only with a limit (rule RK3)"),
        ("output: {b: {r: rank(x)}}", "rank() without arguments"),
        ("output: {b: {r: RANK()}}", "rank(), denseRank() or rowNumber() in the output of a sort"),
        ("output: {b: {r: rnk()}}", "operators[0].output.b.r"),
    ],
)
def test_wrong_sorts(text: str, message: str):
    with pytest.raises(PipelineError) as raised:
        of(text)
    assert any(message in str(problem) for problem in raised.value.problems), raised.value.problems


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (BEST | {"window": "sliding, count(2)", "output": {"k": "k"}}, "expected a list of streams, as each tuple"),
        (BEST | {"window": "sliding, count(2)", "output": {"r": "rank()"}}, "rank() in the output of a sort over"),
        ({"kind": "aggregate", "window": "tumbling, count(2)", "output": {"r": "rank()"}},
         "rank() in the output of a sort over windows that fire alone (rule RK1)"),
    ],
)  # fmt: skip
def test_what_has_no_ranks(operator: dict[str, Any], message: str):
    with pytest.raises(PipelineError) as raised:
        pipeline_of({"operator": operator, "input": EVENTS})
    assert any(message in str(problem) for problem in raised.value.problems), raised.value.problems


# ---- the last of equal tuples ----------------------------------------------------------------------------------------


def test_open_and_close_of_trades_at_the_same_time():
    """Of two trades at one time the first that came is the open, and the last that came the close (FN10)."""
    operator = {
        "window": "timeInterval, intervalDuration(10)", "event_time": "t",
        "output": {"open": "FirstBy(p, t)", "close": "LastBy(p, t)", "first": "ArgMin(t, p)", "last": "ArgMax(t, p)",
                   "least": "ArgMinLast(t, p)"},
    }  # fmt: skip
    trades = [(5.0, 3), (1.0, 1), (1.0, 2), (9.0, 8), (9.0, 7), (4.0, 6)]
    events = [{"at": float(n), "tuple": {"t": t, "p": p}} for n, (t, p) in enumerate(trades)]
    records = run_case({"operator": operator, "input": [*events, {"at": 9.0, "watermark": 10.0}]})
    assert records[0]["tuple"] == {"open": 1, "close": 7, "first": 1, "last": 8, "least": 2}

"""A split gives what a loop over the tuples and the conditions gives, however the events are cut into batches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.load import load_text
from sluice.model.engine_limits import EngineLimits
from sluice.model.errors import PipelineError
from sluice.model.spec import Pipeline, Split
from sluice.planning.explain_plan import plan
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player, replay
from tests.spec.strategies import cuts

FILE = """
pipeline: p
streams:
  orders: {topic: o, schema: {id: int64, amount: 'float64?', country: string}}
  a: {topic: a}
  b: {topic: b}
  c: {topic: c}
operators:
  - {name: route, split: orders, %s}
"""
CONDITIONS = {
    "amount >= 10": lambda row: row["amount"] is not None and row["amount"] >= 10,
    "amount < 20": lambda row: row["amount"] is not None and row["amount"] < 20,
    "id % 2 == 0": lambda row: row["id"] % 2 == 0,
    "isPresent(amount)": lambda row: row["amount"] is not None,
}

tuples = st.fixed_dictionaries({
    "id": st.integers(0, 5), "amount": st.sampled_from([None, 5.0, 10.0, 15.0, 30.0]),
    "country": st.sampled_from(["DE", "FR", "it's"]),
})  # fmt: skip
events = st.lists(st.one_of(tuples, tuples, tuples, st.just("window")), max_size=20)
targets = st.lists(st.sampled_from(sorted(CONDITIONS)), min_size=1, max_size=2, unique=True)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[str], list[str], bool, bool, list[Any]]:
    """The conditions of two outputs, whether there are copies, whether there is an output for the rest, the events."""
    return draw(targets), draw(targets), draw(st.booleans()), draw(st.booleans()), draw(events)


def compared(
    case: tuple[list[str], list[str], bool, bool, list[Any]], *cuts: list[int], limits: EngineLimits | None = None
) -> None:
    """`limits`: a split has no tables."""
    del limits
    first, second, several, rest, given_events = case
    more = f"to: {{a: {first}, b: {second}}}" + ", copies: all" * several + ", otherwise: c" * rest
    pipeline = load_text(FILE % more, "p", environment=None)
    streams = {"a": first, "b": second} | ({"c": []} if rest else {})
    for sizes in ([], *cuts):
        records = run(pipeline, given_events, sizes)
        for stream in streams:
            got = [r.get("tuple", "window") for r in records if r["stream"] == stream]
            assert got == [e for e in given_events if e == "window" or stream in taken(e, streams, several=several)]


def run(pipeline: Pipeline, given_events: list[Any], sizes: list[int]) -> list[dict[str, Any]]:
    """In batches of these sizes, and one of all other events."""
    placed = list(numbered(
        {"at": float(n), "stream": "orders"} | ({"punct": e} if e == "window" else {"tuple": e})
        for n, e in enumerate(given_events)
    ))  # fmt: skip
    player, cutter, rest = Player(pipeline, {"orders": 1}), Cutter(pipeline.inputs), iter(placed)
    state = player.graph.initial()
    batches = ([event for _, event in zip(range(size), rest, strict=False)] for size in [*sizes, len(placed)])
    return [record for batch in batches for record in player.feed(state, cutter.batch(batch))]


@given(cases(), cuts)
@settings(max_examples=40, derandomize=True, deadline=None)
def test_random_splits(case: tuple[list[str], list[str], bool, bool, list[Any]], batches: list[int]):
    compared(case, [1] * len(case[-1]), batches)


def taken(row: dict[str, Any], streams: dict[str, list[str]], *, several: bool) -> list[str]:
    """The streams that get the tuple."""
    found = [stream for stream, texts in streams.items() if any(CONDITIONS[text](row) for text in texts)]
    return (found if several else found[:1]) or ["c"]


def test_a_text_is_a_value_as_it_stands():
    pipeline = load_text(FILE % """by: country, to: {a: DE, b: ["it's", FR]}, otherwise: c""", "p", environment=None)
    rows = [{"id": n, "amount": None, "country": text} for n, text in enumerate(["DE", "it's", "FR", "XX", "de"])]
    records = replay(pipeline, [{"at": float(n), "stream": "orders", "tuple": row} for n, row in enumerate(rows)])
    assert [(r["tuple"]["id"], r["stream"]) for r in records] == [(0, "a"), (1, "b"), (2, "b"), (3, "c"), (4, "c")]


def test_the_plan_names_the_condition_of_each_output():
    pipeline = load_text(FILE % "to: {a: amount >= 10, b: id == 1}, otherwise: c", "p", environment=None)
    (step,) = plan(pipeline)[0].steps
    assert step.windows == ("a: amount >= 10.0", "b: id == 1", "c: all others")
    assert isinstance(pipeline.operators[0], Split)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("to: {a: amount}", 'operators[0].to.a: expected a boolean, not float64?, got "amount"'),
        ("by: id, to: {a: DE}", "operators[0].to.a: expected"),
        ("to: {a: amuont > 1}", "did you mean amount?"),
        ("to: {a: id > 1}, otherwise: a", 'operators[0].otherwise: expected a stream that is not in to, got "a"'),
        ("too: {a: id > 1}", "did you mean to?"),
    ],
)
def test_wrong_splits(more: str, message: str):
    with pytest.raises(PipelineError) as raised:
        load_text(FILE % more, "p", environment=None)
    assert any(message in str(problem) for problem in raised.value.problems)

"""Which batches can be read again for a changed pipeline, and which operators are rebuilt from them."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sluice.batch.inputs_again import PastInput, slices_again
from sluice.batch.query_plan import Plan
from sluice.config.load import load_text
from sluice.engine.graph import Graph, GraphState
from sluice.kafka.batch_report import Planned
from sluice.kafka.ledger import LedgerPosition
from sluice.kafka.librdkafka.column_consumer import of_messages
from sluice.kafka.topics import Topic
from sluice.model.changes.operator_changes import Change, Changes, StateOutcome
from sluice.model.spec import Pipeline
from sluice.state.upgrade import input_replay as module
from sluice.state.upgrade.input_replay import InputReplay, input_replay, rebuild, with_rebuilt
from sluice.time_units import SECOND

FILE = """
pipeline: p
streams:
  a: {topic: a, schema: {v: int64}}
  b: {topic: b, schema: {v: int64}}
  large: {}
  of_a: {topic: of_a}
  of_b: {topic: of_b}
operators:
  - {name: large, map: b, where: v > 9, output: {large: {v: v}}}
  - {name: of_a, aggregate: a, window: "tumbling, count(3)", output: {of_a: {s: Sum(v)}}}
  - {name: of_b, aggregate: large, window: "tumbling, count(3)", output: {of_b: {s: Sum(v)}}}
kafka: {bootstrap.servers: nowhere}
"""
STAGE = load_text(FILE, "p.yaml")


def planned(batch: int, topics: str) -> Planned:
    """Each batch reads ten records of each topic."""
    return Planned(batch + 1, {(topic, 0): 10 * (batch + 1) for topic in topics}, 0)


@pytest.fixture(autouse=True)
def kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, topics="ab")


def given(
    monkeypatch: pytest.MonkeyPatch, *, topics: str, last: int = 4, plans_from: int = -1, plans_to: int = 4,
    oldest: int = 0, compacted: bool = False,
) -> None:  # fmt: skip
    """The ledger is at batch `last`, and has the plans of these batches, which have read these topics."""
    plans = {batch: planned(batch, topics) for batch in range(plans_from, plans_to + 1)}
    monkeypatch.setattr(module.ledger, "read_position", lambda *_: LedgerPosition(last + 1, "q"))
    monkeypatch.setattr(module.ledger, "plans", lambda *_: plans)
    monkeypatch.setattr(
        module.topics, "known_inputs", lambda _: {one: Topic(one, 1, 1 << 20, compacted) for one in "ab"}
    )
    monkeypatch.setattr(module, "clients", lambda *_: nullcontext())
    monkeypatch.setattr(module, "beginnings", lambda _, places: dict.fromkeys(places, oldest))


def reason_of(stage: Pipeline = STAGE) -> str:
    """The reason of `of_a` if the comparison of the files says that it is emptied."""
    (change,) = with_rebuilt(Changes((Change("of_a", StateOutcome.EMPTIED, "why", loses=True),)), stage, "q").all
    return f"{change.word}, {'a' if change.loses else 'no'} loss: {change.reason}"


def test_a_rebuild_behind_an_earlier_change_says_since_when_and_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    """The ledger began with the plan of batch 2: the first change. Batches 3 and 4 have read records since."""
    given(monkeypatch, topics="ab", plans_from=2)
    assert reason_of() == (
        "rebuilt, a loss: why; its inputs are read again since 1970-01-01T00:00:00Z (batch 3). Tuples of earlier "
        "records are missing: the ledger began anew then, as it does at each change of the file and with "
        "--reset-ledger, and a rebuild cannot go back beyond that"
    )


def test_a_second_change_before_any_record_says_why_nothing_is_rebuilt(monkeypatch: pytest.MonkeyPatch):
    given(monkeypatch, topics="ab", plans_from=4)
    assert reason_of() == (
        "emptied, a loss: why; its inputs cannot be read again: no batch has read records since 1970-01-01T00:00:00Z "
        "(batch 4), when the ledger began anew, as it does at each change of the file and with --reset-ledger"
    )


def test_a_rebuild_from_the_first_record_misses_nothing():
    assert reason_of() == "rebuilt, no loss: why; its inputs are read again since the first record"


@pytest.mark.parametrize(
    ("conditions", "word", "why"),
    [
        ({"oldest": 20}, "rebuilt", "Kafka has deleted records of earlier batches"),
        ({"oldest": 50}, "emptied", "Kafka has deleted records of earlier batches"),
        ({"plans_to": 3}, "emptied", "the ledger has no plan of the last batch"),
        ({"compacted": True}, "emptied", "Kafka compacts a, b, or the user lacks the permission DESCRIBE_CONFIGS"),
        ({"topics": "b"}, "emptied", "the earlier file did not read a"),
    ],
)
def test_the_reason_says_what_cannot_be_rebuilt(
    monkeypatch: pytest.MonkeyPatch, conditions: dict[str, Any], word: str, why: str
):
    given(monkeypatch, **{"topics": "ab"} | conditions)
    reason = reason_of()
    assert reason.startswith(f"{word}, a loss: ")
    assert why in reason


def test_with_a_store_the_ledger_may_begin_at_a_snapshot(monkeypatch: pytest.MonkeyPatch):
    given(monkeypatch, topics="ab", plans_from=2)
    assert "with `state:`, since a snapshot in the store" in reason_of(load_text(f"{FILE}state: s3://b/p\n", "p.yaml"))


def test_the_ledger_keeps_the_plans_of_so_many_batches(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "PLANS_KEPT", 3)
    given(monkeypatch, topics="ab", plans_from=2)
    assert "the ledger keeps the plans of the newest 3 batches only" in reason_of()


def words() -> dict[str, str]:
    """What becomes of the aggregates if the comparison of the files says that both are emptied."""
    changes = with_rebuilt(
        Changes((Change("of_a", StateOutcome.EMPTIED), Change("of_b", StateOutcome.EMPTIED))), STAGE, "q"
    )
    return {one.name: str(one.word) for one in changes.all}


def test_operators_are_rebuilt_whose_topics_the_earlier_file_has_read(monkeypatch: pytest.MonkeyPatch):
    assert words() == {"of_a": "rebuilt", "of_b": "rebuilt"}
    given(monkeypatch, topics="a")
    assert words() == {"of_a": "rebuilt", "of_b": "emptied"}, "b is new, also behind the map"


def test_an_operator_whose_records_have_another_form_is_rebuilt_with_a_loss():
    """`b` gets another form: what was written in the earlier one cannot be read again."""
    emptied = Changes(
        (Change("of_a", StateOutcome.EMPTIED, loses=True), Change("of_b", StateOutcome.EMPTIED, loses=True))
    )
    of_a, of_b = with_rebuilt(emptied, STAGE, "q", {"b"}).all
    assert [(one.word, one.loses) for one in (of_a, of_b)] == [
        (StateOutcome.REBUILT, False),
        (StateOutcome.REBUILT, True),
    ]
    assert of_b.reason.endswith("and records of b that do not have the new form are missing")


def test_topics_that_the_changed_file_does_not_read_are_not_read_again(monkeypatch: pytest.MonkeyPatch):
    given(monkeypatch, topics="abc")
    replay = input_replay(STAGE, "q")
    assert replay is not None
    assert replay.plans[4].offsets == {("a", 0): 50, ("b", 0): 50}


def test_a_batch_that_the_ledger_has_not_counted_is_not_read_again(monkeypatch: pytest.MonkeyPatch):
    """With at_least_once its plan may be there already."""
    given(monkeypatch, topics="ab", last=3)
    replay = input_replay(STAGE, "q")
    assert replay is not None
    assert (replay.first, replay.batch, max(replay.plans)) == (0, 3, 3)


def test_without_the_plan_of_the_last_batch_nothing_is_read_again(monkeypatch: pytest.MonkeyPatch):
    given(monkeypatch, topics="ab", plans_to=3)
    assert input_replay(STAGE, "q") is None


@pytest.mark.parametrize(("oldest", "first"), [(0, 0), (20, 2), (21, 3), (50, None)])
def test_batches_are_read_again_as_far_back_as_kafka_has_their_records(
    monkeypatch: pytest.MonkeyPatch, oldest: int, first: int | None
):
    given(monkeypatch, topics="ab", oldest=oldest)
    replay = input_replay(STAGE, "q")
    assert (replay and replay.first) == first


TIMED = """
pipeline: p
clock: records
buckets: 1
streams:
  in: {topic: in, schema: {t: timestamp, u: timestamp}, event_time: {attribute: t, lag: 0}}
  out: {topic: out}
operators:
  - {name: panes, aggregate: in, window: "timeInterval, intervalDuration(60.0)", output: {out: {n: Count()}}}
"""


@dataclass(frozen=True)
class Message:
    """A record whose two times are so many seconds after 1970."""

    number: int

    def key(self) -> None: ...
    def headers(self) -> None: ...

    def value(self) -> bytes:
        return json.dumps({"t": "1970-01-01T00:00:00Z", "u": f"1970-01-01T00:00:{self.number:02}Z"}).encode()

    def offset(self) -> int:
        return self.number

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000 * self.number


def rebuilt(pipeline: Pipeline, old: Pipeline, folder: Path, monkeypatch: pytest.MonkeyPatch) -> GraphState:
    """The state after a rebuild of all operators from ten records."""
    plan = Plan(pipeline, "q", "s", str(folder), 1, {"in": 1, "out": 1})
    before, batch = planned(-1, "i"), Planned(100 * SECOND, {("in", 0): 10}, 0)
    ((_, slices),) = slices_again(plan, ("in", 0), [batch], of_messages([Message(number) for number in range(10)]))
    past = PastInput(plan.topic_partitions, {0: slices}, None)
    monkeypatch.setattr(module, "inputs_again", lambda *_: [past])
    state = Graph(pipeline, plan.topic_partitions).initial()
    names = frozenset(operator.name for operator in pipeline.operators)
    rebuild(plan, names, [state], InputReplay(0, 0, {-1: before, 0: batch}), old)
    return state


def test_watermarks_of_another_attribute_are_rebuilt_with_the_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pipeline = load_text(TIMED.replace("attribute: t", "attribute: u"), "p.yaml")
    state = rebuilt(pipeline, load_text(TIMED, "p.yaml"), tmp_path, monkeypatch)
    assert state.progress["in"].watermark == 9 * SECOND


@pytest.mark.parametrize(("earlier", "watermark"), [("lag: 4", 5), ("lag: 0, minimum_gap: 6", 6), ("lag: 1", 8)])
def test_a_rebuild_has_the_watermarks_of_the_earlier_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: str, watermark: int
):
    """A kept operator before the rebuilt one has fired by them: its results would come twice or never."""
    text = TIMED.replace("attribute: t", "attribute: u")
    old = load_text(text.replace("lag: 0", earlier), "p.yaml")
    state = rebuilt(load_text(text, "p.yaml"), old, tmp_path, monkeypatch)
    assert state.progress["in"].watermark == watermark * SECOND

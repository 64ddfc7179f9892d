"""The conversion of a checkpoint. The ledger is a position."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.batch.query_plan import Plan
from sluice.checkpoint.checkpoint_identity import claim, definition_of, fingerprint_of
from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import batches, first_offsets, write_first_plan, write_logs
from sluice.config.load import load_text
from sluice.kafka.batch_report import Planned
from sluice.kafka.ledger import LedgerPosition
from sluice.kafka.topics import Topic
from sluice.model.spec import Pipeline
from sluice.state.bucket import Bucket
from sluice.state.upgrade import state_conversion as module
from sluice.state.upgrade.file_changes import ChangedFileError
from sluice.state.upgrade.state_conversion import convert_if_changed
from sluice.time_units import MILLISECOND, SECOND
from tests.unit.state.packed_rows import plan_of, rows_of

HEAD = """
pipeline: p
buckets: 1
streams:
  in: {topic: in, schema: {v: int64}}
  out: {topic: out}
operators:
"""
SUMS = '  - {name: sums, aggregate: in, window: "tumbling, count(2)", output: {out: {s: Sum(v)}}}\n'
CUSTOM = '  - {name: own, custom: in, window: "tumbling, count(2)", handler: "shop_classes:Own", output: [out]}\n'
CLASSES = """
from sluice import WindowHandler

class Own(WindowHandler):
    output = {"v": "int64"}

    def trigger(self, window):
        return []
"""
TOPICS = {name: Topic(name, 1, 1 << 20) for name in ("in", "out")}
PLANNED = Planned(MILLISECOND, {("in", 0): 5}, 0)


def pipeline(operators: str, folder: Path) -> Pipeline:
    loaded = load_text(HEAD + operators, "p.yaml")
    return replace(loaded, settings=replace(loaded.settings, checkpoint=str(folder)))


def test_a_class_of_the_earlier_file_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    classes = tmp_path / "shop_classes.py"
    classes.write_text(CLASSES)
    old, new = pipeline(CUSTOM, tmp_path / "checkpoint"), pipeline(SUMS, tmp_path / "checkpoint")
    store = FolderStore(tmp_path / "checkpoint")
    query = claim(store, "p", fingerprint_of(old), 1, 1, definition=definition_of(old)).query
    write_logs(store, {-1: PLANNED, 0: PLANNED}, 0, idle_clock=False)
    position = LedgerPosition(1, query, PLANNED.digest)
    monkeypatch.setattr(module.ledger, "read_position", lambda *_: position)
    monkeypatch.setattr(module.ledger, "end_open_transaction", lambda *_: None)
    classes.unlink()
    monkeypatch.delitem(sys.modules, "shop_classes")
    with pytest.raises(ChangedFileError, match=r"needs the Python classes .* No module named 'shop_classes'"):
        convert_if_changed(new, store, TOPICS, accept=True)


def test_the_report_of_a_change_has_no_clock_if_none_has_started(tmp_path: Path):
    """All records so far were rejected. The smallest time would hide the clocks of other buckets, and be a metric."""
    started, idle = (Bucket(plan_of(tmp_path), number) for number in range(2))
    started.feed(0, rows_of(100, 1))
    assert module._report([idle]).clock is None  # noqa: SLF001 - the whole conversion needs a broker
    assert module._report([started, idle]).clock == 100 * SECOND  # noqa: SLF001


# ---- topics that were created again ----------------------------------------------------------------------------------


@pytest.fixture
def offsets_of_kafka(monkeypatch: pytest.MonkeyPatch):
    """In Kafka each topic partition begins at 1, and ends at 9."""
    monkeypatch.setattr(module, "clients", lambda *_: nullcontext())
    monkeypatch.setattr(module, "beginnings", lambda _, places: dict.fromkeys(places, 1))
    monkeypatch.setattr(module, "ends", lambda _, places: dict.fromkeys(places, 9))


@pytest.mark.usefixtures("offsets_of_kafka")
@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_topic_that_was_created_again_begins_at_its_beginning_with_the_topic_partitions_it_has(start: str):
    pipeline = load_text(f"{HEAD}{SUMS}start: {start}\n", "p.yaml")
    plan = Plan(pipeline, "query", "", "/nowhere", 1, {"in": 2, "out": 1})
    before = Planned(MILLISECOND, {("in", 0): 5, ("in", 1): 6, ("in", 2): 7}, 0)
    assert module._plan_of_change(plan, before, {"in"}).offsets == {("in", 0): 1, ("in", 1): 1}  # noqa: SLF001 - see above
    assert module._plan_of_change(plan, before, ()).offsets == before.offsets  # noqa: SLF001


@pytest.mark.usefixtures("offsets_of_kafka")
def test_before_the_first_batch_it_begins_there_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A start may have written where the first batch begins, and Spark may have planned it."""
    monkeypatch.setattr(module.ledger, "read_position", lambda *_: None)
    store = FolderStore(tmp_path)
    write_first_plan(store, PLANNED, PLANNED, idle_clock=False)
    plan = Plan(
        pipeline(SUMS, tmp_path), "query", "", str(tmp_path), 1, {"in": 1, "out": 1}, created_again=frozenset({"in"})
    )
    module.begin_topics_anew(plan, TOPICS)
    assert first_offsets(store) == {("in", 0): 1}
    assert batches(store) == (None, None)

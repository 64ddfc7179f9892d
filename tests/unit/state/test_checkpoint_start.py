"""How a start opens a checkpoint. The ledger is a position; restores are recorded, and do nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluice.batch.query_plan import Plan
from sluice.checkpoint.checkpoint_folder import CHANGE, UNREADABLE
from sluice.checkpoint.checkpoint_identity import CheckpointError, Identity, claim, definition_of, fingerprint_of
from sluice.checkpoint.checkpoint_store import put_bytes
from sluice.checkpoint.folder_store import FolderStore
from sluice.config.load import load_text
from sluice.kafka import ledger
from sluice.kafka.batch_report import Entry, Planned
from sluice.kafka.batch_report import Report as ReportOfBatch
from sluice.kafka.kafka_errors import LedgerError
from sluice.kafka.ledger import LedgerPosition
from sluice.kafka.topics import Topic
from sluice.model.spec import Pipeline
from sluice.state import checkpoint_start, restore
from sluice.state.checkpoint_start import _claimed, follow_ledger, open_checkpoint

FILE = """
pipeline: sums
streams:
  one: {topic: one, schema: {v: int64}}
  other: {topic: other, schema: {v: int64}}
  out: {topic: out}
operators:
  - {name: all, join: {left: one, right: other}, window_left: "sliding, count(1)", window_right: "sliding, count(1)",
     output: {out: {v: left.v}}}
"""
TOPICS = {name: Topic(name, 1, 1 << 20) for name in ("one", "other", "out")}


class Given:
    """A checkpoint of the pipeline in `folder`, and a ledger at `position` (None: there is no ledger)."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pipeline = load_text(FILE, "sums.yaml")
        self.pipeline = replace(pipeline, settings=replace(pipeline.settings, checkpoint=str(folder)))
        self.store = FolderStore(folder)
        definition, fingerprint = definition_of(self.pipeline), fingerprint_of(self.pipeline)
        self.query = claim(self.store, "sums", fingerprint, 1, 1, definition=definition).query
        self.position: LedgerPosition | None = None
        self.restored: list[Plan] = []
        monkeypatch.setattr(checkpoint_start.ledger, "read_position", lambda *_: self.position)
        monkeypatch.setattr(checkpoint_start.ledger, "last_entry", lambda *_: None)
        monkeypatch.setattr(checkpoint_start.ledger, "owner", lambda *_: ("", ""))
        monkeypatch.setattr(checkpoint_start.ledger, "end_open_transaction", lambda *_: None)
        monkeypatch.setattr(checkpoint_start.ledger, "plans", lambda *_: {})
        monkeypatch.setattr(restore, "require_restorable", lambda *_: None)
        monkeypatch.setattr(restore, "restore", lambda plan, *_, **__: self.restored.append(plan))


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Given:
    return Given(tmp_path, monkeypatch)


def in_another_order(pipeline: Pipeline) -> Pipeline:
    return replace(pipeline, streams=dict(reversed(pipeline.streams.items())))


def test_streams_have_the_order_of_the_checkpoint_although_the_file_has_another(given: Given):
    plan = open_checkpoint(in_another_order(given.pipeline), TOPICS, "start")
    assert [stream.name for stream in plan.inputs] == ["one", "other"]
    assert list(plan.topic_partitions) == ["one", "other", "out"]


def test_so_they_have_in_an_instance_that_follows(given: Given):
    given.position = LedgerPosition(7, given.query)
    follow_ledger(in_another_order(given.pipeline), TOPICS)
    (plan,) = given.restored
    assert list(plan.topic_partitions) == ["one", "other", "out"]


def test_an_instance_that_follows_leaves_a_conversion_that_the_ledger_lacks_as_it_is(given: Given):
    given.position = LedgerPosition(7, given.query)
    put_bytes(given.store, CHANGE, b"{}")
    follow_ledger(given.pipeline, TOPICS)
    assert given.restored == []


# ---- the reason of a restore -----------------------------------------------------------------------------------------

ENTRY = 'v1\n{"batchTimestampMs":1}\n{"one":{"0":7},"other":{"0":3}}\n'
#: the files of a checkpoint whose last committed batch is 4
FILES = {
    "metadata": '{"id": "8b8f6e46-0d5c-4c2e-8f0b-3f7f5a3a3f0e"}',
    "sources/0/0": '\0v1\n{"one":{"0":5},"other":{"0":0}}',
    "offsets/3": ENTRY,
    "offsets/4": ENTRY,
    "commits/4": 'v1\n{"nextBatchWatermarkMs":0}',
    "buckets/0/1.log": "",
}


def reasons(given: Given, caplog: pytest.LogCaptureFixture, files: Mapping[str, str | None]) -> list[str]:
    """The lines of the log of a start with these files, of which each is about a restore."""
    found = lines(given, caplog, files)
    assert len(found) == len(given.restored)
    return found


def lines(given: Given, caplog: pytest.LogCaptureFixture, files: Mapping[str, str | None]) -> list[str]:
    """The lines of the log of a start with these files, without the folder of the checkpoint."""
    for name, text in files.items():
        if text is not None:
            put_bytes(given.store, name, text.encode())
    open_checkpoint(given.pipeline, TOPICS, "start")
    folder = f"checkpoint {given.store.location()}: "
    said = [record.getMessage() for record in caplog.records]
    return [line.removeprefix(folder) for line in said if line.startswith(folder)]


def test_a_checkpoint_at_the_batch_of_the_ledger_is_not_restored(given: Given, caplog: pytest.LogCaptureFixture):
    given.position = LedgerPosition(5, given.query)
    assert reasons(given, caplog, FILES) == []


@pytest.mark.parametrize(
    ("position", "files", "reason"),
    [
        (8, FILES, "its last committed batch is 4"),
        (5, {}, "it has no committed batch"),
        (5, FILES | {"metadata": "{"}, "its file metadata is damaged (Expecting property name"),
        (5, FILES | {"offsets/4": ""}, "its file offsets/4 is damaged ("),
        (5, {name: text for name, text in FILES.items() if name != "offsets/3"}, "its file offsets/3 is missing"),
        (5, {name: text for name, text in FILES.items() if name[:7] != "buckets"}, "its folder buckets/0 is missing"),
    ],
    ids=["older", "lost", "damaged", "empty", "missing", "bucket"],
)
def test_the_log_says_why_a_checkpoint_is_restored(
    given: Given, caplog: pytest.LogCaptureFixture, position: int, files: dict[str, str], reason: str
):
    given.position = LedgerPosition(position, given.query)
    (line,) = reasons(given, caplog, files)
    assert line.startswith(reason)
    assert line.endswith(f"; it is restored to batch {position - 1} of the ledger")


def test_so_it_says_that_another_copy_wrote_the_batch(given: Given, caplog: pytest.LogCaptureFixture):
    given.position = LedgerPosition(5, given.query, "another digest")
    expected = "it planned other records for batch 4 than were written; it is restored to batch 4 of the ledger"
    assert reasons(given, caplog, FILES) == [expected]


def test_a_batch_in_parts_comes_after_the_one_before_it_which_this_copy_has_only_planned(
    given: Given, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Spark would run the batch in parts alone, and the state servers would miss the batch before it."""
    given.position = LedgerPosition(5, given.query)
    planned = Planned(2, {("one", 0): 8, ("other", 0): 3}, 0)
    in_parts = Entry("sums", given.query, 5, 0, 0, ReportOfBatch(), planned=planned, buckets=1)
    monkeypatch.setattr(checkpoint_start.ledger, "take_over", lambda *_: 1)
    monkeypatch.setattr(checkpoint_start.ledger, "fenced_parts", lambda *_: [LedgerPosition(6, given.query)])
    monkeypatch.setattr(checkpoint_start.ledger, "entry_in_parts", lambda *_: in_parts)
    given.pipeline = replace(given.pipeline, settings=replace(given.pipeline.settings, writers="buckets"))
    line, _ = lines(given, caplog, FILES | {"commits/3": FILES["commits/4"], "commits/4": None})
    assert line.startswith("buckets have written parts of batch 5, and it has not committed batch 4; it is restored")
    assert len(given.restored) == 1


def test_a_start_looks_again_if_another_instance_closes_batches_until_it_is_fenced(
    given: Given, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """The driver of that instance opens a producer again, which it may until this start has taken over."""

    def take_over(*_: object) -> int:
        given.position = LedgerPosition(8, given.query)
        return 1

    given.position = LedgerPosition(5, given.query)
    monkeypatch.setattr(checkpoint_start.ledger, "take_over", take_over)
    monkeypatch.setattr(checkpoint_start.ledger, "fenced_parts", lambda *_: [LedgerPosition(8, given.query)])
    monkeypatch.setattr(checkpoint_start.ledger, "entry_in_parts", lambda *_: None)
    given.pipeline = replace(given.pipeline, settings=replace(given.pipeline.settings, writers="buckets"))
    (line,) = reasons(given, caplog, FILES)
    assert line == "its last committed batch is 4; it is restored to batch 7 of the ledger"


def test_a_start_looks_again_if_another_one_takes_over_between_its_reads(
    given: Given, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """The position is that of before, and the buckets of the other start have written the batches after it."""
    looks = iter([LedgerError("entries are lost"), None])

    def entry_in_parts(*_: object) -> None:
        if (error := next(looks)) is not None:
            raise error

    given.position = LedgerPosition(5, given.query)
    monkeypatch.setattr(checkpoint_start.ledger, "take_over", lambda *_: 1)
    monkeypatch.setattr(checkpoint_start.ledger, "fenced_parts", lambda *_: [])
    monkeypatch.setattr(checkpoint_start.ledger, "entry_in_parts", entry_in_parts)
    monkeypatch.setattr(checkpoint_start.ledger, "owner", lambda *_: (given.query, "the other start"))
    given.pipeline = replace(given.pipeline, settings=replace(given.pipeline.settings, writers="buckets"))
    assert reasons(given, caplog, FILES) == []
    assert list(looks) == [], "it has looked twice"


def test_a_file_that_a_batch_could_not_use_is_the_reason_of_a_restore(
    given: Given, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    given.position = LedgerPosition(5, given.query)
    monkeypatch.setattr(restore, "unreadable", lambda _, version: f"1.log: version {version} is damaged")
    (line,) = reasons(given, caplog, FILES | {UNREADABLE: "1.log: damaged"})
    assert line.startswith("1.log: version 5 is damaged; it is restored")


def test_files_that_can_be_read_after_all_are_used(
    given: Given, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    given.position = LedgerPosition(5, given.query)
    monkeypatch.setattr(restore, "unreadable", lambda *_: "")
    assert reasons(given, caplog, FILES | {UNREADABLE: "1.log: damaged"}) == []
    assert UNREADABLE not in given.store.list()


def test_a_refused_restore_names_the_damaged_file(given: Given, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise restore.RestoreError("Kafka has deleted the records")

    given.position = LedgerPosition(5, given.query)
    monkeypatch.setattr(restore, "unreadable", lambda *_: "1.log: the entry at byte 0 is damaged")
    monkeypatch.setattr(restore, "require_restorable", refuse)
    put_bytes(given.store, UNREADABLE, b"")
    with pytest.raises(
        CheckpointError, match=r"deleted the records\. It has to be restored: 1\.log: the entry"
    ) as error:
        reasons(given, None, FILES)  # type: ignore[arg-type]
    assert error.value.exit_code == 4


# ---- the first batch -------------------------------------------------------------------------------------------------


def test_a_start_waits_for_a_first_batch_that_the_brokers_have_not_marked_everywhere(
    given: Given, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """The checkpoint has a committed batch, so the ledger has a position: a read that does not wait has none yet."""
    stable = LedgerPosition(5, given.query)
    monkeypatch.setattr(
        checkpoint_start.ledger, "read_position",
        lambda _kafka, _name, isolation="read_committed": None if isolation == ledger.OPEN else stable,
    )  # fmt: skip
    assert reasons(given, caplog, FILES) == []


def test_a_start_goes_on_from_a_first_batch_that_another_instance_commits_while_it_reads_the_checkpoint(
    given: Given, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def committed_first(*arguments: Any) -> Identity:
        for name, text in FILES.items():
            put_bytes(given.store, name, text.encode())
        given.position = LedgerPosition(5, given.query)
        return _claimed(*arguments)

    monkeypatch.setattr(checkpoint_start, "_claimed", committed_first)
    assert reasons(given, caplog, {}) == []


def test_a_start_goes_on_from_a_first_batch_that_becomes_visible_while_it_fences(
    given: Given, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def fence(*_: object) -> None:
        given.position = LedgerPosition(1, given.query)

    monkeypatch.setattr(checkpoint_start.ledger, "end_open_transaction", fence)
    (line,) = reasons(given, caplog, {})
    assert line == "it has no committed batch; it is restored to batch 0 of the ledger"


def test_a_start_that_was_overtaken_by_another_checkpoint_while_it_fenced_looks_at_that_first(
    given: Given, monkeypatch: pytest.MonkeyPatch
):
    """It restores nothing of its own to a position that belongs to another history."""

    def fence(*_: object) -> None:
        given.position = LedgerPosition(9, "another checkpoint")

    given.position = LedgerPosition(5, given.query)
    monkeypatch.setattr(checkpoint_start.ledger, "end_open_transaction", fence)
    for name, text in FILES.items():
        put_bytes(given.store, name, text.encode())
    with pytest.raises(LedgerError, match="belongs to the checkpoint another checkpoint"):
        open_checkpoint(given.pipeline, TOPICS, "start")
    assert given.restored == []


def test_a_start_takes_the_identity_of_an_instance_whose_buckets_have_begun_the_first_batch(
    given: Given, monkeypatch: pytest.MonkeyPatch
):
    """They commit their parts after the start has looked, and before it fences them."""
    begun: list[Entry] = []

    def fenced(*_: object) -> list[LedgerPosition | None]:
        fingerprint = fingerprint_of(given.pipeline)
        begun[:] = [Entry("sums", "another", 0, 0, 0, ReportOfBatch(), fingerprint=fingerprint, buckets=1)]
        return [LedgerPosition(1, "another")]

    monkeypatch.setattr(checkpoint_start.ledger, "take_over", lambda *_: 1)
    monkeypatch.setattr(checkpoint_start.ledger, "fenced_parts", fenced)
    monkeypatch.setattr(checkpoint_start.ledger, "entry_in_parts", lambda *_: None)
    monkeypatch.setattr(checkpoint_start.ledger, "first_part", lambda *_, **_fenced: next(iter(begun), None))
    writers = replace(given.pipeline, settings=replace(given.pipeline.settings, writers="buckets"))
    assert open_checkpoint(writers, TOPICS, "start").query == "another"


@pytest.mark.parametrize(
    "damaged",
    [{"metadata": "{"}, {"offsets/0": "v1"}, {"sources/0/0": ""}, {"metadata": None}],
    ids=["metadata", "plan", "beginning", "no metadata"],
)
def test_before_the_first_batch_a_damaged_plan_is_made_again(given: Given, damaged: dict[str, str | None]):
    """As after a loss of power, which may meet Spark while it writes them."""
    whole = {"metadata": FILES["metadata"], "sources/0/0": FILES["sources/0/0"], "offsets/0": ENTRY}
    for name, text in (whole | damaged).items():
        if text is not None:
            put_bytes(given.store, name, text.encode())
    open_checkpoint(given.pipeline, TOPICS, "start")
    assert not {*whole} & {*given.store.list()}


def test_before_the_first_batch_a_whole_plan_stays(given: Given):
    whole = {"metadata": FILES["metadata"], "sources/0/0": FILES["sources/0/0"], "offsets/0": ENTRY}
    for name, text in whole.items():
        put_bytes(given.store, name, text.encode())
    open_checkpoint(given.pipeline, TOPICS, "start")
    assert {*whole} <= {*given.store.list()}


def test_where_an_input_begins_with_its_newest_records_a_damaged_beginning_is_refused(given: Given):
    latest = replace(given.pipeline, settings=replace(given.pipeline.settings, start="latest"))
    for name, text in {"metadata": FILES["metadata"], "sources/0/0": "", "offsets/0": ENTRY}.items():
        put_bytes(given.store, name, text.encode())
    with pytest.raises(CheckpointError, match="sources/0/0: it is damaged"):
        open_checkpoint(latest, TOPICS, "start")

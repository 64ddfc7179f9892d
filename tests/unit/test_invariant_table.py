"""Each invariant of plain values ends a batch with its name, and docs/state.md has the table of all invariants."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sluice import invariants
from sluice.batch.commit import WrittenStream
from sluice.columns.interner import Interner
from sluice.engine.graph import Graph
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.items import EMPTY_FIRING, FINAL, TUPLE, WINDOW
from sluice.files import project_file
from sluice.invariants import INVARIANTS, require_offsets, require_watermarks, violated
from sluice.model.errors import InvariantError
from sluice.spark.failures import explained
from sluice.state.bucket import Bucket
from sluice.state.bucket_log import Entry, Log
from tests.unit.state.packed_rows import plan_of, rows_of


def records(*rows: tuple[int, int, int]) -> pa.RecordBatch:
    """Records with these times, ordinals and kinds."""
    at, ordinal, kind = np.array(rows, np.int64).reshape(-1, 3).T
    return pa.record_batch({"at": at, "ordinal": ordinal, "kind": kind.astype(np.int8)})


def write(made: list[pa.RecordBatch], written: list[pa.RecordBatch]) -> None:
    stream = WrittenStream("out")
    for part in written:
        stream.add(part)
    stream.check([made])


FIRING = records((1, 0, TUPLE), (1, 0, WINDOW))


@pytest.fixture(autouse=True)
def _all_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(invariants.VARIABLE, "1")


def test_what_the_buckets_made_is_written():
    write([FIRING, records((2, 0, EMPTY_FIRING), (3, 0, FINAL))], [FIRING, records((3, 0, FINAL))])
    require_watermarks({"in": 1}, {"in": 1, "out": 0})
    require_offsets({("in", 0): 1}, {("in", 0): 1, ("in", 1): 0})


@pytest.mark.parametrize(
    ("name", "violate"),
    [
        ("watermark never back", lambda: require_watermarks({"in": 2}, {"in": 1})),
        ("watermark never back", lambda: require_watermarks({"in": 2}, {})),
        ("offsets follow the ledger", lambda: require_offsets({("in", 0): 2}, {("in", 0): 1})),
        ("offsets follow the ledger", lambda: require_offsets({("in", 0): 2}, {})),
        ("outputs in order", lambda: write([], [records((2, 0, TUPLE), (1, 0, TUPLE))])),
        ("outputs in order", lambda: write([], [records((2, 1, TUPLE)), records((2, 0, TUPLE))])),
        ("marks are last", lambda: write([], [records((1, 0, FINAL), (1, 0, TUPLE))])),
        ("marks are last", lambda: write([], [records((1, 0, FINAL)), records((1, 0, TUPLE))])),
        ("firings are whole", lambda: write([FIRING], [records((1, 0, TUPLE))])),
        ("firings are whole", lambda: write([FIRING], [FIRING, records((1, 0, WINDOW))])),
    ],
)
def test_a_planted_violation_is_named(name: str, violate: Callable[[], None]):
    with pytest.raises(InvariantError, match=name):
        violate()


def bucket_after(folder: Path, batches: int) -> Bucket:
    bucket = Bucket(plan_of(folder), 0)
    for number in range(batches):
        bucket.feed(number, rows_of(number, 1))
    return bucket


def test_an_entry_that_is_missing_in_the_log_ends_the_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    bucket_after(tmp_path, 2)
    monkeypatch.setattr(Log, "entries", lambda *_: iter([Entry(2, rows_of(1, 1))]))
    with pytest.raises(InvariantError, match="log versions follow"):
        Bucket(plan_of(tmp_path), 0).feed(2, rows_of(2, 1))


def test_a_state_of_another_version_ends_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    bucket = bucket_after(tmp_path, 1)
    monkeypatch.setattr(Bucket, "_go_to", lambda *_: None)
    with pytest.raises(InvariantError, match="version follows version"):
        bucket.feed(2, rows_of(2, 1))


@pytest.mark.parametrize(
    ("name", "member", "value"), [("clock never back", "now", 9), ("nothing held is due", "due", 3)]
)
def test_a_clock_that_goes_back_and_a_timer_that_was_missed_end_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, member: str, value: int
):
    graph = Graph(plan_of(tmp_path).pipeline, {"in": 1})
    state = graph.initial()
    graph.feed(state, {}, Clock(1, 2))
    if member == "now":
        state.now = value
    else:
        monkeypatch.setattr(graph, "due", lambda _: value)
    with pytest.raises(InvariantError, match=name):
        graph.feed(state, {}, Clock(2, 3))


def test_records_of_a_topic_partition_that_are_not_in_order_end_the_batch(tmp_path: Path):
    (row,) = rows_of(0, 2)
    from sluice.batch.packed_rows import PartitionSlice  # noqa: PLC0415

    swapped = PartitionSlice.of(row[1])
    object.__setattr__(swapped, "rows", swapped.rows.take(pa.array([1, 0])))
    with pytest.raises(InvariantError, match="inputs in order"):
        bucket_after(tmp_path, 0).feed(0, [(row[0], swapped.packed())])


@pytest.mark.parametrize(("name", "texts"), [("keys are unique", [b"a", b"a"]), ("columns agree", [b"a"])])
def test_damaged_keys_end_the_load(name: str, texts: list[bytes]):
    table = Interner()
    table.intern_arrow(pa.array([b"a", b"b"]))
    saved = table.save() | {"data": np.frombuffer(b"".join(texts), np.uint8)}
    if name == "keys are unique":
        saved["hashes"] = saved["hashes"][[0, 0]]
    with pytest.raises(InvariantError, match=name):
        Interner.load({part: pa.py_buffer(np.ascontiguousarray(values)) for part, values in saved.items()})


def test_a_violation_in_a_state_server_ends_the_service_as_a_defect():
    error = violated("columns agree", "x")
    text = f"sluice.state.server.request.StateServerError: Traceback\nsluice.model.errors.InvariantError: {error}"
    shown = explained(text)
    assert isinstance(shown, InvariantError)
    assert shown.exit_code == 70
    assert '"columns agree" does not hold: x' in str(shown)


def test_the_docs_list_all_invariants():
    rows = [
        (f"{when.capitalize()}:", f"* {name}: {statement} `{where}`{'' if always else ', costly'}")
        for name, statement, when, where, always in INVARIANTS
    ]
    listed, head = set[tuple[str, str]](), ""
    for line in project_file("docs/state.md").read_text().splitlines():
        head = line if line.endswith(":") else head
        listed.add((head, line))
    assert [row for row in rows if row not in listed] == []

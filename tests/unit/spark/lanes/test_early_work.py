"""The work of a batch begins when the log of offsets has its entry, or when Spark calls, and is done once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ctypes import CDLL
from types import SimpleNamespace

import inotify_simple
import pytest

from sluice.spark.failures import explained
from sluice.spark.lanes import batch_lanes
from sluice.spark.lanes.batch_lanes import EarlyWork, HungBatchError

#: bound on the waits of these tests, in seconds; none of them takes as long
LONG = 30.0


class Work:
    """Work whose calls a test waits for. It returns whether the number of the batch is even, and fails for 13."""

    def __init__(self):
        self.begun, self.calls = threading.Event(), []

    def __call__(self, batch):
        self.calls.append((batch, threading.current_thread().name))
        self.begun.set()
        if batch == 13:
            raise ValueError("the work failed")
        return batch % 2 == 0


@pytest.fixture
def work():
    return Work()


@pytest.fixture
def early(work, tmp_path):
    made = EarlyWork(work, tmp_path / "offsets")
    yield made
    made.end()


def renamed(folder, name):
    """Writes a file of the log as Hadoop does: under another name, and then renamed."""
    temporary = folder / "offsets" / f".{name}.tmp"
    temporary.write_text("v1")
    temporary.rename(folder / "offsets" / str(name))


def plan(folder, batch):
    """Writes the entry of a batch as Spark does, first the entry and then its checksums."""
    renamed(folder, batch)
    renamed(folder, f".{batch}.crc")


@contextmanager
def in_progress(folder, batch):
    """The early work of a batch, which ends when the event is set, or with the context."""
    calls, began, may_end = [], threading.Event(), threading.Event()

    def slow(batch):
        calls.append(batch)
        began.set()
        return may_end.wait(LONG)

    early = EarlyWork(slow, folder / "offsets")
    plan(folder, batch)
    assert began.wait(LONG)
    yield SimpleNamespace(early=early, may_end=may_end, calls=calls)
    may_end.set()
    assert early.end(LONG)


@pytest.mark.usefixtures("early")
def test_the_work_begins_when_the_log_has_the_batch(work, tmp_path):
    plan(tmp_path, 4)
    assert work.begun.wait(LONG)
    assert work.calls == [(4, "sluice-early-work")]


def test_the_call_of_spark_gets_the_result_of_work_that_has_begun(early, work, tmp_path):
    plan(tmp_path, 4)
    assert work.begun.wait(LONG)
    assert early.result(4)
    assert early.result(4)
    assert [batch for batch, _ in work.calls] == [4]


def test_a_batch_that_was_planned_before_the_start_begins_when_spark_calls(early, work):
    assert not early.result(7)
    assert work.calls == [(7, threading.current_thread().name)]


def test_the_call_of_spark_waits_for_work_in_progress(tmp_path):
    with in_progress(tmp_path, 0) as slow, ThreadPoolExecutor(1) as spark:
        called = spark.submit(slow.early.result, 0)
        assert not called.done()
        slow.may_end.set()
        assert called.result(LONG)
    assert slow.calls == [0]


def test_work_that_hangs_ends_the_query_with_exit_code_6(tmp_path, monkeypatch):
    monkeypatch.setattr(batch_lanes, "MAX_WORK_S", 0.01)
    with in_progress(tmp_path, 7) as slow, pytest.raises(HungBatchError, match=r"batch 7 has not ended") as raised:
        slow.early.result(7)
    name = f"{HungBatchError.__module__}.{HungBatchError.__qualname__}"
    assert explained(f"Traceback ...\n{name}: {raised.value}\n").exit_code == 6


def test_a_time_out_of_the_work_itself_stays_what_it_is(tmp_path):
    def slow(_):
        raise TimeoutError("a request was too slow")

    early = EarlyWork(slow, tmp_path / "offsets")
    with pytest.raises(TimeoutError, match="a request was too slow"):
        early.result(1)
    assert early.end(LONG)


def test_the_call_of_spark_raises_what_the_work_raised(early, work, tmp_path):
    plan(tmp_path, 13)
    assert work.begun.wait(LONG)
    with pytest.raises(ValueError, match="the work failed"):
        early.result(13)
    assert early.result(14)


def test_an_entry_without_its_checksums_and_earlier_batches_are_no_work(early, work, tmp_path):
    assert early.result(6)
    renamed(tmp_path, 7)
    renamed(tmp_path, ".7.crc.tmp")
    plan(tmp_path, 6)
    plan(tmp_path, 5)
    work.begun.clear()
    plan(tmp_path, 8)
    assert work.begun.wait(LONG)
    assert [batch for batch, _ in work.calls] == [6, 8]


def test_the_work_begins_when_the_entry_can_be_forced_to_the_disk(tmp_path):
    found, began = [], threading.Event()

    def work(_):
        found.extend(path.name for path in (tmp_path / "offsets").iterdir())
        began.set()
        return True

    early = EarlyWork(work, tmp_path / "offsets")
    plan(tmp_path, 3)
    assert began.wait(LONG)
    assert early.end(LONG)
    assert sorted(found) == [".3.crc", "3"]


def test_nothing_begins_after_the_end_but_what_spark_calls(early, work, tmp_path):
    assert early.end()
    plan(tmp_path, 4)
    assert not [thread for thread in threading.enumerate() if thread.name == "sluice-early-work"]
    assert work.calls == []
    assert early.result(4)


def test_an_entry_that_came_before_the_end_and_was_not_seen_is_no_work(tmp_path):
    with in_progress(tmp_path, 4) as slow:
        plan(tmp_path, 5)
        assert not slow.early.end(0.0)
        slow.may_end.set()
        assert slow.early.end(LONG)
    assert slow.calls == [4]


def test_the_end_waits_for_work_in_progress(tmp_path):
    with in_progress(tmp_path, 4) as slow, ThreadPoolExecutor(1) as other:
        assert not slow.early.end(0.0)
        ended = other.submit(slow.early.end)
        assert not ended.done()
        slow.may_end.set()
        assert ended.result(LONG)
        assert slow.early.result(4)


def test_a_removed_folder_ends_the_thread(early, tmp_path):
    (tmp_path / "offsets").rmdir()
    assert early.end()
    assert early.result(2)


def refused(*_):
    raise OSError(24, "Too many open files")


@pytest.mark.parametrize(
    ("name", "substitute"),
    [
        pytest.param("inotify_init1", refused, id="the limit of queues is reached"),
        pytest.param("inotify_add_watch", refused, id="the limit of watches is reached"),
        pytest.param("inotify_init1", None, id="the C library of another system"),
    ],
)
def test_without_a_watch_the_work_is_done_when_spark_calls(tmp_path, monkeypatch, caplog, name, substitute):
    own = CDLL(None, use_errno=True)
    functions = {"inotify_init1": own.inotify_init1, "inotify_add_watch": own.inotify_add_watch, name: substitute}
    library = SimpleNamespace(**{one: call for one, call in functions.items() if call is not None})
    monkeypatch.setattr(inotify_simple, "_libc", library)
    work = Work()
    with caplog.at_level("INFO", "sluice"):
        early = EarlyWork(work, tmp_path / "offsets")
    assert "cannot be watched" in caplog.text
    plan(tmp_path, 4)
    assert early.result(4)
    assert work.calls == [(4, threading.current_thread().name)]
    assert early.end()

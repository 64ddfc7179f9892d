"""The work of a batch begins when the log of offsets has its entry, or when Spark calls, and is done once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sluice.spark.lanes import early_work
from sluice.spark.lanes.early_work import EarlyWork

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
    made.close()


def plan(folder, name):
    """Writes an entry as Spark does: under another name, and then renamed."""
    temporary = folder / "offsets" / f".{name}.tmp"
    temporary.write_text("v1")
    temporary.rename(folder / "offsets" / name)


@pytest.mark.usefixtures("early")
def test_the_work_begins_when_the_log_has_the_batch(work, tmp_path):
    plan(tmp_path, "4")
    assert work.begun.wait(LONG)
    assert work.calls == [(4, "sluice-early-work")]


def test_the_call_of_spark_gets_the_result_of_work_that_has_begun(early, work, tmp_path):
    plan(tmp_path, "4")
    assert work.begun.wait(LONG)
    assert early.result(4)
    assert early.result(4)
    assert [batch for batch, _ in work.calls] == [4]


def test_a_batch_that_was_planned_before_the_start_begins_when_spark_calls(early, work):
    assert not early.result(7)
    assert work.calls == [(7, threading.current_thread().name)]


def test_the_call_of_spark_waits_for_work_in_progress(tmp_path):
    began, may_end = threading.Event(), threading.Event()

    def slow(_):
        began.set()
        return may_end.wait(LONG)

    early = EarlyWork(slow, tmp_path / "offsets")
    plan(tmp_path, "0")
    assert began.wait(LONG)
    with ThreadPoolExecutor(1) as spark:
        called = spark.submit(early.result, 0)
        assert not called.done()
        may_end.set()
        assert called.result(LONG)
    early.close()


def test_the_call_of_spark_raises_what_the_work_raised(early, work, tmp_path):
    plan(tmp_path, "13")
    assert work.begun.wait(LONG)
    with pytest.raises(ValueError, match="the work failed"):
        early.result(13)
    assert early.result(14)


def test_files_of_checksums_and_earlier_batches_are_no_work(early, work, tmp_path):
    assert early.result(6)
    plan(tmp_path, ".7.crc")
    plan(tmp_path, "6")
    plan(tmp_path, "5")
    work.begun.clear()
    plan(tmp_path, "8")
    assert work.begun.wait(LONG)
    assert [batch for batch, _ in work.calls] == [6, 8]


def test_nothing_begins_after_the_close(early, work, tmp_path):
    early.close()
    plan(tmp_path, "4")
    assert not [thread for thread in threading.enumerate() if thread.name == "sluice-early-work"]
    assert work.calls == []


def test_a_removed_folder_ends_the_thread(early, tmp_path):
    (tmp_path / "offsets").rmdir()
    early.close()
    assert early.result(2)


def test_without_a_watch_the_work_is_done_when_spark_calls(work, tmp_path, monkeypatch, caplog):
    def refused(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(early_work, "INotify", refused)
    with caplog.at_level("INFO", "sluice"):
        early = EarlyWork(work, tmp_path / "offsets")
    assert "cannot be watched" in caplog.text
    assert early.result(4)
    early.close()

"""Each row of "What can fail, and when" in docs/state.md, on the pool and its state servers alone (fault_rows.py)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from sluice.config.load import load_text
from sluice.files import project_file
from sluice.replayer.player import replay
from tests.recovery.harness.process_table import processes
from tests.recovery.harness.waiting import PATIENCE, wait_until
from tests.unit.state.packed_rows import FILE

BATCH = 40
#: the name of the process between a daemon and its pool
SUPERVISED = "sluice-pool"
KEYS = 50


class Pool:
    """A process in Spark's place, with the pool that it forked and the pool's state servers."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.moments = folder, folder / "moments"
        self.moments.mkdir(parents=True, exist_ok=True)
        root = str(project_file("service").parent)
        path = os.pathsep.join([str(Path(__file__).parent / "pausing"), root])
        script = str(Path(__file__).parent / "harness" / "state_pool.py")
        self._process = subprocess.Popen(
            [sys.executable, script, str(folder), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, start_new_session=True,
            env={**os.environ, "PYTHONPATH": path, "SLUICE_TEST_MOMENTS": str(self.moments)},
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """All of its processes at once."""
        for one in processes(self.pid):
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
        self._process.communicate()

    def ask(self, bucket: int, version: int, first: int, count: int) -> dict:
        assert self._process.stdin
        assert self._process.stdout
        print(bucket, version, first, count, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def children(self, depth: int) -> set[int]:
        """1: the pool, 2: state servers, 3: processes that write snapshots."""
        everything = processes(self.pid)
        supervisor = {one.pid for one in everything if one.parent == self.pid and one.name == SUPERVISED}
        found = supervisor or {self.pid}
        for _ in range(depth):
            found = {one.pid for one in everything if one.parent in found}
        return found


class Bucket:
    """A bucket of its own for each test: what was fed to it, and the process that keeps its state."""

    def __init__(self, pool: Pool, number: int) -> None:
        self.pool, self._number = pool, number
        self._tasks = ThreadPoolExecutor(1)
        #: version of the state that counts, and how many tuples led to it
        self.version = self.sent = 0
        self._others = pool.children(2)

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def task(self, count: int = BATCH) -> Future:
        """Begins a task with the next tuples at the version that counts."""
        return self._tasks.submit(self.pool.ask, self._number, self.version, self.sent, count)

    def feed(self, count: int = BATCH) -> list[dict]:
        """The outputs of the next tuples, which then count."""
        return self.taken(self.task(count), count)

    def taken(self, task: Future, count: int = BATCH) -> list[dict]:
        """The outputs of a task, whose version then counts. Raises unless they are those of `replay`."""
        answer = task.result(PATIENCE)
        assert "outputs" in answer, answer
        assert answer["outputs"] == expected(self.sent, count)
        self.version, self.sent = self.version + 1, self.sent + count
        return answer["outputs"]

    def answer(self) -> dict:
        """Of a task whose batch does not count."""
        return self.task().result(PATIENCE)

    # ---- the process that keeps its state ---------------------------------------------------------------------------

    @property
    def process(self) -> int:
        (pid,) = self.pool.children(2) - self._others
        return pid

    def kill(self) -> None:
        """Nothing is left of the bucket but its files."""
        pid = self.process
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: pid not in self.pool.children(2), "the state server ends")
        for file in self.pool.moments.iterdir():
            file.unlink()

    def at(self, moment: str, what: str = "pause") -> None:
        (self.pool.moments / moment).write_text(what)

    def reached(self, moment: str) -> bool:
        return (self.pool.moments / f"{moment}.reached").exists()

    def await_moment(self, moment: str) -> None:
        wait_until(lambda: self.reached(moment), f"a state server comes to {moment!r}")

    # ---- its files --------------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        return self.pool.folder / "buckets" / str(self._number)

    def files(self, pattern: str) -> list[Path]:
        return sorted(self.folder.glob(pattern))


def expected(first: int, size: int) -> list[dict]:
    """What comes of the tuples number `first` and on, after all that were before them."""
    end = first + size
    return outputs_of(2 ** max(13, (end - 1).bit_length()))[first:end]


@cache
def outputs_of(tuples: int) -> list[dict]:
    """What comes of so many tuples, one output of each. Those of the first ones are the same for any number."""
    pipeline = load_text(FILE % "count(10)", "held.yaml")
    rows = ({"k": f"key {number * number % KEYS}", "v": number} for number in range(tuples))
    events = [{"at": number, "tuple": row} for number, row in enumerate(rows)]
    return [record["tuple"] for record in replay(pipeline, events) if "tuple" in record]


NUMBERS = count()


@pytest.fixture(scope="module")
def pool(tmp_path_factory) -> Iterator[Pool]:
    one = Pool(tmp_path_factory.mktemp("checkpoint"))
    yield one
    one.kill()


@pytest.fixture(scope="module")
def other_pool(tmp_path_factory) -> Iterator[Pool]:
    """It writes each snapshot beside the work."""
    one = Pool(tmp_path_factory.mktemp("checkpoint"), "beside")
    yield one
    one.kill()


@pytest.fixture
def bucket(pool) -> Bucket:
    return Bucket(pool, next(NUMBERS))


@pytest.fixture
def beside(other_pool) -> Bucket:
    """Its snapshots are written by processes of their own."""
    return Bucket(other_pool, next(NUMBERS))


def test_k01_the_state_process_is_killed_at_rest(bucket):
    for _ in range(3):
        bucket.feed()
        bucket.kill()
    bucket.feed()


@pytest.mark.parametrize("moment", ["feeding", "fed"])
def test_k01_the_state_process_is_killed_at_work(bucket, moment):
    """The task asks again, and gets the same."""
    bucket.feed()
    bucket.at(moment)
    task = bucket.task()
    bucket.await_moment(moment)
    bucket.kill()
    bucket.taken(task)
    bucket.feed()


def test_k01_the_third_death_under_one_task_fails_the_batch(bucket):
    bucket.feed()
    bucket.at("feeding")
    task = bucket.task()
    for last in (False, False, True):
        bucket.await_moment("feeding")
        pid = bucket.process
        os.kill(pid, signal.SIGSTOP)  # it must not go on when its pause ends
        (bucket.pool.moments / "feeding.reached").unlink()
        if not last:
            bucket.at("feeding")
        os.kill(pid, signal.SIGKILL)
    assert "died" in task.result(PATIENCE)
    bucket.feed()


def test_k02_a_batch_fails_inside_the_engine(bucket):
    """The state has changed by then, and has no version any more."""
    bucket.feed()
    bucket.at("fed", "fail")
    assert "a test asked for a failure" in bucket.answer()["failed"]
    bucket.feed()
    bucket.kill()
    bucket.feed()


def test_k03_the_task_dies_after_the_answer(bucket):
    """The repeated task asks for the older version, and gets the same."""
    bucket.feed()
    assert bucket.answer()["outputs"] == expected(bucket.sent, BATCH)
    bucket.feed()
    bucket.kill()
    bucket.feed()


def test_k03_the_newer_entry_of_a_version_counts(bucket):
    """The batch that was given up had fewer rows."""
    bucket.feed()
    bucket.task(10).result(PATIENCE)
    bucket.feed(20)
    bucket.kill()
    bucket.feed()


def test_k04_a_task_that_was_given_up_goes_on(bucket):
    """In a pool of its own, as on another machine, behind the one that replaced it."""
    pool = Pool(bucket.pool.folder)
    zombie = Bucket(pool, bucket._number)  # noqa: SLF001
    try:
        for _ in range(3):
            bucket.feed()
        for _ in range(3):
            zombie.feed()
            bucket.feed()
    finally:
        pool.kill()
    bucket.kill()
    bucket.feed()


def test_k05_the_process_dies_from_which_the_pool_was_forked(bucket):
    """Pool and state servers end, and those of a new start make the state again."""
    first = Pool(bucket.pool.folder)
    there = Bucket(first, bucket._number)  # noqa: SLF001
    there.feed()
    others = first.children(1) | first.children(2)
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: not {one.pid for one in processes(first.pid)} & others, "pool and state servers end")
    first.kill()
    bucket.version, bucket.sent = there.version, there.sent
    bucket.feed()


def test_k06_killed_while_it_appends_to_the_log(bucket):
    """Half an entry is none; the file that ends with it is not written to again."""
    bucket.feed(BATCH * 10)  # in a snapshot
    bucket.feed()
    for _ in range(2):
        bucket.at("entry-half")
        task = bucket.task()
        bucket.await_moment("entry-half")
        bucket.kill()
        bucket.taken(task)
    bucket.feed()
    bucket.kill()
    bucket.feed()


def test_k07_killed_while_a_snapshot_is_written_in_place_of_rows(bucket):
    """A batch that is larger than the state, which is then written in its place."""
    bucket.feed()
    bucket.at("snapshot-half")
    task = bucket.task(BATCH * 100)
    bucket.await_moment("snapshot-half")
    assert bucket.files("*.part")
    bucket.kill()
    bucket.taken(task, BATCH * 100)
    bucket.feed()
    bucket.kill()
    bucket.feed()


def feed_until_a_snapshot_is_written(bucket: Bucket) -> set[int]:
    """The process that writes it, which pauses before the file has its name.

    It leaves the processors to others, and would come to nothing while batch follows batch on a busy machine. So each
    batch waits for the process that the one before has begun.
    """
    await_no_writer(bucket)
    bucket.at("snapshot-half")
    while not bucket.reached("snapshot-half"):
        bucket.feed()
        wait_until(lambda: bucket.reached("snapshot-half") or not bucket.pool.children(3), "a snapshot is half written")
    assert bucket.files("*.part")
    return bucket.pool.children(3)


def await_no_writer(bucket: Bucket) -> None:
    wait_until(lambda: not bucket.pool.children(3), "no snapshot is being written")


def test_k07_the_writer_of_a_snapshot_is_killed(beside):
    """The log reaches back to the snapshot before; another one is written."""
    beside.feed(BATCH * 10)
    (writer,) = feed_until_a_snapshot_is_written(beside)
    before = beside.files("*.state")
    os.kill(writer, signal.SIGKILL)
    while beside.files("*.state") == before:
        beside.feed()
        await_no_writer(beside)
    beside.kill()
    beside.feed()


def test_k07_everything_is_killed_while_a_snapshot_is_written(beside):
    beside.feed(BATCH * 10)
    for pid in (*feed_until_a_snapshot_is_written(beside), beside.process):
        os.kill(pid, signal.SIGKILL)
    beside.feed()
    beside.kill()
    beside.feed()


@pytest.mark.slow
def test_k08_a_snapshot_is_damaged(bucket):
    """One bit, anywhere, of one copy or of both: what comes out is right, or the failure names the bucket's folder."""
    grown(bucket)
    files = {file: file.read_bytes() for pattern in ("*.state", "*.copy") for file in bucket.files(pattern)}
    for damaged in ([*files][-1:], [*files]):
        assert_right_or_refused_with_flipped_bits(bucket, damaged)
    assert_goes_on_with(bucket, files)


def test_k09_an_entry_of_the_log_is_damaged(bucket):
    grown(bucket)
    files = {file: file.read_bytes() for file in bucket.files("*.log")}
    assert_right_or_refused_with_flipped_bits(bucket, [*files])
    assert_goes_on_with(bucket, files)


def assert_right_or_refused_with_flipped_bits(bucket: Bucket, files: list[Path]) -> None:
    """A bit at 10 places, at the same one in each of these files."""
    sound = {file: file.read_bytes() for file in files}
    for part in range(10):
        for file, content in sound.items():
            at = 3 + part * (len(content) - 3) // 10
            file.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        assert_right_or_refused(bucket, f"a bit of part {part} of 10")
        for file, content in sound.items():
            file.write_bytes(content)


@pytest.mark.parametrize("patterns", [["*.log"], ["*.state", "*.copy"], ["*"]], ids=["log", "snapshots", "all"])
def test_k10_an_entry_is_missing(bucket, patterns):
    """It never goes on with a state that lacks a batch."""
    grown(bucket)
    lost = {file: file.read_bytes() for pattern in patterns for file in bucket.files(pattern)}
    for file in lost:
        file.unlink()
    assert_right_or_refused(bucket, f"without {patterns}")
    if patterns == ["*"]:
        assert str(bucket.folder) in bucket.answer()["failed"]
    assert_goes_on_with(bucket, lost)


@pytest.mark.parametrize("fill", [b"", b"\0" * 4096], ids=["cut off", "zeros"])
def test_k11_the_machine_loses_power(bucket, fill):
    """The end of the log is lost, or zeros stand in its place."""
    grown(bucket)
    file = bucket.files("*.log")[-1]
    sound = file.read_bytes()
    for lost in (1, 9, 100, len(sound) // 2, len(sound)):
        file.write_bytes(sound[: len(sound) - lost] + fill)
        assert_right_or_refused(bucket, f"{lost} bytes lost")
        file.write_bytes(sound)
    assert_goes_on_with(bucket, {})


def grown(bucket: Bucket) -> None:
    """A snapshot and a log behind it are all that is left."""
    bucket.feed(BATCH * 10)
    for _ in range(3):
        bucket.feed()
    bucket.kill()
    assert bucket.files("*.log")
    assert bucket.files("*.state")


def assert_right_or_refused(bucket: Bucket, how: str) -> None:
    """Whichever it is: a batch that comes out is the right one. The bucket's files are as they were afterwards."""
    before = {file: file.read_bytes() for file in bucket.files("*")}
    answer = bucket.answer()
    assert answer.get("outputs") == expected(bucket.sent, BATCH) or str(bucket.folder) in answer.get("failed", ""), how
    bucket.kill()
    for file in bucket.files("*"):
        file.unlink()
    for file, content in before.items():
        file.write_bytes(content)


def assert_goes_on_with(bucket: Bucket, files: dict[Path, bytes]) -> None:
    """Once these files are as they were."""
    for file, content in files.items():
        file.write_bytes(content)
    bucket.feed()
    bucket.kill()
    bucket.feed()

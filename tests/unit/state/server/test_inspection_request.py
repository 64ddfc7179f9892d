"""Inspections of a state server: what they answer, that they change nothing, and that they never delay a batch."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sluice.batch.packed_rows import pack, unpack
from sluice.batch.query_plan import Plan
from sluice.config.load import load_text
from sluice.state import bucket_inspection as module
from sluice.state.bucket import Bucket
from sluice.state.bucket_inspection import Inspections, inspect, inspect_bucket
from sluice.state.message import Message
from sluice.state.server.pool import INSPECTION, VARIABLE, Pool
from tests.unit.state.packed_rows import SECOND, plan_of, rows_of

QUERY = "query/start"


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    one = Bucket(plan_of(tmp_path), 1)
    one.feed(0, rows_of(0, 60, keys=7))
    return one


def inspected(inspections: Inspections, bucket: Bucket | None, **question: object) -> dict[str, object] | None:
    """The answer that the forked copy writes; None if the connection ends without one."""
    ours, theirs = socket.socketpair()
    with theirs:
        inspections.answer(theirs, bucket, json.dumps(question).encode())
    with ours, ours.makefile("rb") as file:
        try:
            (body,) = Message.read(file).bodies
        except EOFError:
            return None
        return json.loads(bytes(body))


def test_an_answer_has_the_clock_the_sizes_and_the_windows_of_a_key(bucket: Bucket):
    found = inspected(Inspections(), bucket, key="key 1")
    assert found is not None
    assert (found["bucket"], found["version"], found["clock"]) == (1, 1, 59 * SECOND)
    assert found["sizes"] == {"sums": [4, 39]}
    (window,) = found["windows"]  # type: ignore[misc]
    assert (window["operator"], window["key"], window["tuples"]) == ("sums", "key 1", 10)
    assert window["now"]["out"][0]["n"] == 10


def test_without_a_key_in_the_question_no_window_is_read(bucket: Bucket):
    found = inspected(Inspections(), bucket)
    assert found is not None
    assert "windows" not in found


def test_an_inspection_does_not_change_the_state(bucket: Bucket):
    before = bucket.graph.save(bucket.in_memory())  # type: ignore[arg-type]
    inspected(Inspections(), bucket, key="key 1")
    assert bucket.graph.save(bucket.in_memory()) == before  # type: ignore[arg-type]
    assert bucket.version == 1
    assert bucket.feed(1, rows_of(60, 5)) is not None


def test_a_state_without_a_version_is_not_shown(bucket: Bucket):
    bucket.at(1)
    assert inspect_bucket(bucket, {}) == {"bucket": 1, "version": None}


def test_a_server_without_a_bucket_answers_nothing():
    assert inspected(Inspections(), None) is None


def test_a_second_inspection_is_refused_while_one_runs(bucket: Bucket, monkeypatch: pytest.MonkeyPatch):
    inspections = Inspections()
    with monkeypatch.context() as patch:
        patch.setattr(module, "inspect_bucket", lambda *_: signal.pause())
        ours, theirs = socket.socketpair()
        with theirs:
            inspections.answer(theirs, bucket, b"{}")
    assert inspected(inspections, bucket) is None
    os.kill(inspections._pid, signal.SIGKILL)  # noqa: SLF001
    os.waitid(os.P_PID, inspections._pid, os.WEXITED | os.WNOWAIT)  # noqa: SLF001
    ours.close()
    assert inspected(inspections, bucket) is not None


def test_an_inspection_that_takes_too_long_ends(bucket: Bucket, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "INSPECTION_S", 1)
    monkeypatch.setattr(module, "inspect_bucket", lambda *_: signal.pause())
    begin = time.monotonic()
    assert inspected(Inspections(), bucket) is None
    assert time.monotonic() - begin < 20


def test_an_answer_that_is_too_large_comes_without_windows(bucket: Bucket, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_ANSWER", 500)
    found = inspected(Inspections(), bucket, key="key 1")
    assert found is not None
    assert (found["windows"], found["too_large"]) == ([], True)


# ---- through the pool ------------------------------------------------------------------------------------------------


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket with a name, as the pool binds it."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "pool"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.bind(str(tmp_path / "pool"))
        yield one


@pytest.mark.parametrize("path", ["", "/nowhere/pool"])
def test_nobody_at_the_socket_is_no_answer(path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, path)
    assert inspect(QUERY, 0, {}) is None


def test_the_question_is_in_the_socket_before_it_is_passed_on(door: socket.socket):
    pid = os.fork()
    if not pid:
        inspect(QUERY, 3, {"key": "a"})
        os._exit(0)
    name, numbers, _, _ = socket.recv_fds(door, 4096, 1)
    with socket.socket(fileno=numbers[0]) as connection, connection.makefile("rb") as file:
        question = Message.read(file)
        assert name == f"3 {INSPECTION} {QUERY}".encode()
        assert (question.numbers, json.loads(bytes(question.bodies[0]))) == ((3, INSPECTION), {"key": "a"})
    os.waitpid(pid, 0)


def test_an_inspection_of_a_bucket_without_a_server_starts_none(door: socket.socket):
    pool = Pool([door], os.getpid(), lambda _: None)
    ours, theirs = socket.socketpair()
    with theirs:
        pool._pass_request(f"0 {INSPECTION} {QUERY}", theirs)  # noqa: SLF001
    with ours:
        assert ours.recv(1) == b""


PANES = """
pipeline: held
streams:
  in: {topic: in, schema: {k: string, v: int64}, event_time: {attribute: v, resolution: milliseconds, lag: 1000}}
  out: {topic: out}
operators:
  - name: sums
    aggregate: in
    window: WINDOW
    partition_by: [k]
    output: {out: {k: k, n: Count(), s: Sum(v)}}
"""


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("'timeInterval, intervalDuration(0.03), partitioned'", [
            {"k": "key 1", "n": 9, "s": 141}, {"k": "key 1", "n": 8, "s": 364},
        ]),
        ("session, inactivityGap(0.02)", [{"k": "key 1", "n": 17, "s": 505}]),
    ],
)  # fmt: skip
def test_windows_over_event_time_show_what_they_would_emit_now(tmp_path: Path, window: str, expected: object):
    pipeline = load_text(PANES.replace("WINDOW", window), "held.yaml")
    bucket = Bucket(Plan(pipeline, "query", "start", str(tmp_path), 1, {"in": 1, "out": 1}), 0)
    packed = rows_of(0, 60, keys=7)
    bucket.feed(0, [(kind, with_watermarks(body)) for kind, body in packed])
    found = inspected(Inspections(), bucket, key="key 1")
    assert found is not None
    (one,) = found["windows"]  # type: ignore[misc]
    assert one["now"]["out"] == expected


def with_watermarks(body: object) -> bytes:
    """The rows with the column of watermarks that a stream with event time has."""
    batch, about = unpack(body)  # type: ignore[arg-type]
    rows = batch.add_column(3, "@watermark", pa.array(np.zeros(batch.num_rows, np.int64)))
    return bytes(pack(rows, about))

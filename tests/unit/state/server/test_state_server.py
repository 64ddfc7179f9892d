"""Which connections a state server keeps open."""

from __future__ import annotations

import fcntl
import resource
import socket
import threading
from types import SimpleNamespace

import pytest

from sluice.checkpoint.checkpoint_folder import UNREADABLE
from sluice.checkpoint.checkpoint_identity import FILE, UnreadableStateError
from sluice.checkpoint.checkpoint_store import get_bytes, put_bytes
from sluice.state.bucket import Bucket
from sluice.state.message import Message
from sluice.state.server import pool, request, state_server
from tests.unit.state.damaged_files import flip
from tests.unit.state.packed_rows import plan_of, rows_of


@pytest.fixture
def control(monkeypatch):
    """The pool's end of the control socket of a state server, whose bucket answers with the number of the batch."""

    def served(connection, request, bucket):
        Message(request.numbers[1:2], []).write(connection.sendall)
        return bucket or SimpleNamespace(maintain=lambda: None)

    monkeypatch.setattr(state_server, "configure_as_parent", lambda: None)
    monkeypatch.setattr(state_server, "_served", served)
    monkeypatch.setattr(state_server, "Inspections", lambda: SimpleNamespace(answer=lambda *_: None))
    ours, theirs = socket.socketpair()
    server = threading.Thread(target=state_server.serve, args=(theirs,))
    server.start()
    with ours:
        yield ours
    server.join()
    theirs.close()


def connected(control):
    ours, theirs = socket.socketpair()
    with theirs:
        socket.send_fds(control, [b"!"], [theirs.fileno()])
    ours.settimeout(30)
    return ours


def asked(connection, batch):
    Message((0, batch), [b"plan"]).write(connection.sendall)
    with connection.makefile("rb") as file:
        return Message.read(file).numbers


def is_closed(connection):
    return connection.recv(1) == b""


def test_a_connection_gets_one_answer_after_the_other(control):
    with connected(control) as connection:
        assert [asked(connection, batch) for batch in (4, 5)] == [(4,), (5,)]


def test_a_second_client_takes_the_place_of_the_first(control):
    with connected(control) as first, connected(control) as second:
        assert asked(first, 4) == (4,)
        assert asked(second, 5) == (5,)
        assert is_closed(first)
        assert asked(second, 6) == (6,)


def test_an_inspection_leaves_the_connection_of_the_bucket_open(control):
    with connected(control) as connection:
        assert asked(connection, 4) == (4,)
        with connected(control) as inspection:
            Message((0, pool.INSPECTION), [b"{}"]).write(inspection.sendall)
            inspection.shutdown(socket.SHUT_WR)
        assert asked(connection, 5) == (5,)


@pytest.fixture
def many_files():
    """This process may have some thousand files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_a_connection_may_have_a_high_number(control):
    """The pool has a file for each state server, and a state server may get the next number."""
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket(fileno=fcntl.fcntl(theirs, fcntl.F_DUPFD, 1500)) as high:
        ours.sendall(b"request")
        assert pool.received_connection(control, 0, high) is high


def test_a_client_that_has_closed_its_connection_leaves_the_server_at_work(control):
    with connected(control) as connection:
        assert asked(connection, 4) == (4,)
    with connected(control) as connection:
        assert asked(connection, 5) == (5,)


@pytest.mark.parametrize("lost", [False, True])
def test_a_state_that_cannot_be_read_is_noted_for_the_next_start(tmp_path, monkeypatch, lost):
    """The batch fails, and the start after it restores the checkpoint (test_checkpoint_start.py). It does so anyway if
    the checkpoint was lost, but would refuse one that has a note alone.
    """
    plan = plan_of(tmp_path)
    if not lost:
        put_bytes(plan.store, FILE, b"{}")
    Bucket(plan, 0).feed(0, rows_of(0, 10))
    (log,) = (tmp_path / "buckets" / "0").glob("*.log")
    flip(log, log.stat().st_size // 2)

    def connection(*_):
        ours, theirs = socket.socketpair()
        work = threading.Thread(target=answer, args=(theirs,))
        work.start()
        return ours

    def answer(theirs):
        with theirs, theirs.makefile("rb") as file:
            state_server._served(theirs, Message.read(file), None)  # noqa: SLF001

    monkeypatch.setattr(pool, "connection", connection)
    with pytest.raises(UnreadableStateError, match="the entry at byte 0 is damaged; the next start restores") as error:
        request.request(plan, 0, 1, rows_of(10, 10))
    assert error.value.exit_code == 6
    if lost:
        assert UNREADABLE not in plan.store.list(UNREADABLE)
    else:
        assert get_bytes(plan.store, UNREADABLE).decode() == f"{log}: the entry at byte 0 is damaged"

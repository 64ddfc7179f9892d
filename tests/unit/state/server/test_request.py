"""The connections to state servers that stay open: when they are used again, and what follows the death of a server."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest

from sluice.state.message import Message
from sluice.state.server import pool, request
from sluice.state.server.request import DONE, FAILED, Connections, StateServerError

PLAN = SimpleNamespace(pickled=b"plan", server_name="query/start")
ROW = (7, b"row")


class Servers:
    """State servers of a test, each a thread. Each answers a request with the body of its row, behind the number of the
    connection, until `deaths` says that it dies when it has the next request.
    """

    def __init__(self):
        self.made, self.deaths, self.status = [], 0, DONE

    def connection(self, query, bucket, version):
        ours, theirs = socket.socketpair()
        self.made.append((query, bucket, version))
        threading.Thread(target=self._serve, args=(theirs, len(self.made)), daemon=True).start()
        return ours

    def _serve(self, connection, number):
        with connection, connection.makefile("rb") as file, suppress(EOFError, OSError):  # the client has gone
            while True:
                asked = Message.read(file)
                if self.deaths:
                    self.deaths -= 1
                    return
                body = b"%d: %s" % (number, bytes(asked.bodies[1]))
                Message((self.status, *asked.numbers[2:]), [body]).write(connection.sendall)


@pytest.fixture
def servers(monkeypatch):
    made = Servers()
    monkeypatch.setattr(pool, "connection", made.connection)
    return made


@pytest.fixture
def kept():
    with_sockets = Connections()
    yield with_sockets
    with_sockets.close()


def test_a_connection_stays_open_for_the_next_request_of_its_bucket(servers, kept):
    first = [kept.begin(PLAN, bucket, 0, [ROW]) for bucket in (0, 1)]
    assert [outputs() for outputs in first] == [[(7, b"1: row")], [(7, b"2: row")]]
    assert kept.begin(PLAN, 1, 1, [ROW])() == [(7, b"2: row")]
    assert servers.made == [("query/start", 0, pool.KEPT), ("query/start", 1, pool.KEPT)]


def test_a_server_that_died_between_two_requests_is_replaced(servers, kept):
    kept.begin(PLAN, 0, 0, [ROW])()
    servers.deaths = 1
    assert kept.begin(PLAN, 0, 1, [ROW])() == [(7, b"2: row")]
    assert servers.made[1] == ("query/start", 0, 1), "of one request alone"
    assert kept.begin(PLAN, 0, 2, [ROW])() == [(7, b"3: row")]
    assert servers.made[2] == ("query/start", 0, pool.KEPT)


def test_a_request_fails_if_each_server_that_gets_it_dies(servers, kept):
    servers.deaths = 1 + request.MAX_ATTEMPTS
    with pytest.raises(EOFError):
        kept.begin(PLAN, 0, 0, [ROW])()


@pytest.mark.usefixtures("servers")
def test_a_connection_whose_answer_was_not_read_is_not_used_again(kept):
    kept.begin(PLAN, 0, 0, [ROW])
    assert kept.begin(PLAN, 0, 0, [ROW])() == [(7, b"2: row")]


def test_an_error_of_the_work_is_not_repeated(servers, kept):
    servers.status = FAILED
    with pytest.raises(StateServerError, match="1: row"):
        kept.begin(PLAN, 0, 0, [ROW])()
    assert len(servers.made) == 1


@pytest.mark.parametrize("kept_open", [True, False])
def test_a_server_that_hangs_is_ended_and_named(monkeypatch, kept, kept_open):
    ours, theirs = socket.socketpair()
    ended = []
    monkeypatch.setattr(pool, "connection", lambda *_: ours)
    monkeypatch.setattr(pool, "end_query", ended.append)
    monkeypatch.setattr(request, "MAX_ANSWER_S", 0.01)
    with theirs, pytest.raises(StateServerError, match="the state server of bucket 3 has not answered"):
        kept.begin(PLAN, 3, 0, [ROW])() if kept_open else request.request(PLAN, 3, 0, [ROW])
    assert ended == ["query"]


@pytest.mark.parametrize("kept_open", [True, False])
def test_a_server_that_hangs_before_it_has_read_a_large_request_is_ended_and_named(monkeypatch, kept, kept_open):
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(pool, "connection", lambda *_: ours)
    monkeypatch.setattr(pool, "end_query", lambda _: None)
    monkeypatch.setattr(request, "MAX_ANSWER_S", 0.01)
    large = [(1, bytes(8 << 20))]
    with theirs, pytest.raises(StateServerError, match="the state server of bucket 3 has not answered"):
        kept.begin(PLAN, 3, 0, large)() if kept_open else request.request(PLAN, 3, 0, large)


def test_a_reader_that_hangs_is_no_reason_to_end_the_others(monkeypatch):
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(pool, "connection", lambda *_: ours)
    monkeypatch.setattr(pool, "end_query", lambda _: pytest.fail("ended"))
    monkeypatch.setattr(request, "MAX_ANSWER_S", 0.01)
    with theirs, pytest.raises(TimeoutError, match="reader 1 has not answered"):
        request.ask(pool.READERS, 1, 0, Message((1,), []))

"""Clients of the HTTP port that drip, flood, or come in large numbers, over real sockets of this machine."""

from __future__ import annotations

import http.client
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sluice.ops.http_server import MAX_REQUEST, BoundedConnection, OpsServer
from sluice.ops.pipelines import Pipelines, State
from tests.unit.ops.registered_pipelines import registered

#: a client that drips, and the addresses of a client that attacks and of one that does not
DRIPS, ATTACKER, OTHER = 400, "127.0.0.2", "127.0.0.1"


class Patient(BoundedConnection):
    request_s = 20.0


class Hasty(BoundedConnection):
    request_s = 0.5


@contextmanager
def serving(connection: type[BoundedConnection], answer: bytes = b"a 1\n") -> Iterator[OpsServer]:
    pipelines = Pipelines()
    pipelines.register(registered("flights", State.RUNNING))
    with OpsServer(0, lambda: answer, pipelines, OTHER, connection=connection) as server:
        yield server


def connected(server: OpsServer, address: str = ATTACKER) -> socket.socket:
    return socket.create_connection((OTHER, server.port), timeout=10, source_address=(address, 0))


def is_ready(server: OpsServer) -> bool:
    client = http.client.HTTPConnection(OTHER, server.port, timeout=10)
    client.request("GET", "/readyz")
    answer = client.getresponse()
    found = answer.status, answer.read()
    client.close()
    return found == (200, b"ok\n")


def sent(client: socket.socket, data: bytes) -> bool:
    """Whether the connection is still there."""
    try:
        client.sendall(data)
    except (ConnectionResetError, BrokenPipeError):
        return False
    return True


def end(client: socket.socket) -> bytes:
    """What comes until the server ends the connection."""
    received = bytearray()
    try:
        while part := client.recv(1 << 16):
            received += part
    except ConnectionResetError:
        pass
    return bytes(received)


def test_many_clients_that_drip_cost_neither_threads_nor_the_health_check() -> None:
    with serving(Patient) as server:
        threads = threading.active_count()
        drips = [connected(server) for _ in range(DRIPS)]
        for byte in b"GET / HTTP/1.1\r\nX: ":
            for client in drips:
                sent(client, bytes([byte]))
            assert is_ready(server)
            assert server.connections <= Patient.most
            assert threading.active_count() <= threads
        for client in drips:
            client.close()


def test_a_client_that_drips_is_dropped_when_its_time_is_over_however_much_it_has_sent() -> None:
    """Each byte would start a time-out of idle connections again; the time of a request is one time."""
    with serving(Hasty) as server, connected(server) as client:
        client.settimeout(0.01)
        count = 0
        while sent(client, b"G"):
            count += 1
            try:
                assert client.recv(1) == b""
                break
            except TimeoutError:
                continue
            except ConnectionResetError:
                break
        assert count > 5


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nX: ",
        b"GET /",
        b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n",
    ],
    ids=["header", "path", "body of a POST", "body of a GET"],
)
def test_a_request_with_many_bytes_is_dropped(head: bytes) -> None:
    with serving(Patient) as server, connected(server) as client:
        assert sent(client, head)
        count = 0
        while sent(client, b"x" * 8192):
            count += 8192
            assert count < 64 << 20, "what the buffers of two sockets hold is less"
        assert is_ready(server)


def test_a_body_in_chunks_is_dropped() -> None:
    with serving(Patient) as server, connected(server) as client:
        assert sent(client, b"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(64 << 20 >> 13):
            if not sent(client, b"2000\r\n" + b"x" * 8192 + b"\r\n"):
                return
        pytest.fail("the server read 64 MiB of a body")


def test_many_requests_on_one_connection_are_not_one_large_request() -> None:
    request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n" % (b"a" * 8000)
    with serving(Patient) as server, connected(server) as client:
        for _ in range(2 * MAX_REQUEST // len(request)):
            client.sendall(request)
            received = b""
            while not received.endswith(b"a 1\n"):
                received += client.recv(1000)
            assert received.startswith(b"HTTP/1.1 200 OK")


def test_a_client_with_many_connections_does_not_end_the_connection_of_another() -> None:
    with serving(Patient) as server, connected(server, OTHER) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
        many = [connected(server) for _ in range(Patient.most + 50)]
        assert is_ready(server)
        client.sendall(b"Connection: close\r\n\r\n")
        assert end(client).endswith(b"a 1\n")
        for one in many:
            one.close()


def test_a_request_that_is_no_http_writes_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise a client could fill the disk with it."""
    with caplog.at_level(logging.WARNING), serving(Patient) as server, connected(server) as client:
        client.sendall(b"\x00\x1b[31m\r\n\r\n")
        assert end(client).startswith(b"HTTP/1.1 400")
    assert not caplog.records

import http.client
import json
import socket
import threading

import pytest
from starlette.responses import PlainTextResponse

from sluice.ops.http_server import MADE_AT_ONCE, BoundedConnection, OpsServer, PortError
from sluice.ops.pipelines import Pipelines, Role, State
from tests.unit.ops.registered_pipelines import registered


@pytest.fixture
def pipelines():
    found = Pipelines()
    found.register(registered("flights", State.RUNNING))
    return found


@pytest.fixture
def server(pipelines):
    with OpsServer(0, lambda: b"a 1\n", pipelines, "127.0.0.1") as server:
        yield server


def ask(server, path, method="GET", accepts="*/*"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request(method, path, headers={"Accept": accepts})
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_metrics_health_and_readiness_are_served(server):
    assert ask(server, "/metrics") == (200, b"a 1\n")
    assert ask(server, "/metrics?x=1") == (200, b"a 1\n")
    assert ask(server, "/healthz") == (200, b"ok\n")
    assert ask(server, "/readyz") == (200, b"ok\n")


@pytest.mark.parametrize("role", [Role.LEADER, Role.STANDBY])
def test_readiness_says_who_leads(server, pipelines, role):
    pipelines.register(registered("flights", State.STANDBY if role is Role.STANDBY else State.RUNNING, role=role))
    assert ask(server, "/readyz") == (200, f"{role}\n".encode())
    assert ask(server, "/healthz") == (200, b"ok\n")
    pipelines.register(registered("flights", State.FAILED, role=role, error="no topic"))
    assert ask(server, "/readyz") == (503, b"failed: no topic\n")


def test_trouble_is_a_503_that_says_what(server, pipelines):
    pipelines.register(registered("flights", began=False))
    assert (ask(server, "/healthz"), ask(server, "/readyz")) == ((200, b"ok\n"), (503, b"starting\n"))
    pipelines.register(registered("flights", batch=400.0))
    what = b"a batch has been running for 400 seconds, more than 300\n"
    assert ask(server, "/healthz") == ask(server, "/readyz") == (503, what)


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_client_that_accepts_json_gets_the_status_of_each_pipeline(server, pipelines, path):
    status, body = ask(server, path, accepts="application/json")
    assert (status, json.loads(body)) == (200, pipelines.described())


@pytest.mark.parametrize("path", ["/", "/metrics/", "/metrics/x", "/../etc/passwd", "/favicon.ico"])
def test_everything_else_is_not_found(server, path):
    assert ask(server, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_sent(server, method):
    assert ask(server, "/metrics", method)[0] == 405


def test_head_has_no_body(server):
    assert ask(server, "/metrics", "HEAD") == (200, b"")


@pytest.mark.parametrize("trusted", ["*", "127.0.0.2"])
def test_no_client_but_a_proxy_on_this_machine_says_whose_request_it_is(pipelines, monkeypatch, trusted):
    """The page is shown to clients on this machine alone. By default uvicorn takes the proxies from the environment."""

    async def page(scope, receive, send):
        await PlainTextResponse(scope["client"][0])(scope, receive, send)

    monkeypatch.setenv("FORWARDED_ALLOW_IPS", trusted)
    with OpsServer(0, lambda: b"", pipelines, "127.0.0.1", page) as server:
        elsewhere = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5, source_address=("127.0.0.2", 0))
        elsewhere.request("GET", "/page", headers={"X-Forwarded-For": "127.0.0.1"})
        assert elsewhere.getresponse().read() == b"127.0.0.2"
        elsewhere.close()


def test_a_port_in_use_is_an_error_that_says_what_to_do():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortError, match=rf"cannot serve on port {port} .*--http-port"):
            OpsServer(port, lambda: b"", Pipelines(), "127.0.0.1")


class Hasty(BoundedConnection):
    request_s = 0.2


class Few(BoundedConnection):
    most = 3


def serving(pipelines, connection, answer=b"a 1\n"):
    return OpsServer(0, lambda: answer, pipelines, "127.0.0.1", connection=connection)


def connected(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def is_dropped(client):
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "sent", [b"", b"GET /metrics HT", b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n"]
)
def test_a_client_that_sends_no_whole_request_loses_its_connection(pipelines, sent):
    """Each connection is a file descriptor of the service."""
    with serving(pipelines, Hasty) as server, connected(server) as client:
        client.sendall(sent)
        assert is_dropped(client)


def test_a_client_that_begins_a_second_request_loses_its_connection(pipelines):
    with serving(pipelines, Hasty) as server, connected(server) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET /met")
        received = b""
        while some := client.recv(1000):
            received += some
        assert received.startswith(b"HTTP/1.1 200 OK")
        assert received.endswith(b"a 1\n")


def test_a_client_that_does_not_read_its_answer_loses_its_connection_and_the_answer(pipelines):
    with serving(pipelines, Hasty, b"x" * (64 << 20)) as server, connected(server) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        read = len(client.recv(1))
        while server.connections:  # the client reads nothing meanwhile
            pass
        try:
            while some := client.recv(1 << 20):
                read += len(some)
        except ConnectionResetError:
            pass
        assert read < 64 << 20


def test_of_too_many_connections_the_oldest_is_dropped(pipelines):
    with serving(pipelines, Few) as server:
        clients = [connected(server) for _ in range(5)]
        assert ask(server, "/healthz") == (200, b"ok\n")
        assert [is_dropped(client) for client in clients[:3]] == [True] * 3
        assert server.connections <= Few.most
        for client in clients:
            client.close()


def test_after_many_clients_at_once_few_threads_stay(pipelines):
    """Each page of metrics is made in a thread, MADE_AT_ONCE at a time."""
    began, all_there = [], threading.Event()

    def slow():
        began.append(threading.current_thread())
        all_there.wait(10)
        return b"a 1\n"

    with OpsServer(0, slow, pipelines, "127.0.0.1") as server:
        clients = [connected(server) for _ in range(50)]
        for client in clients:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        while len(began) < MADE_AT_ONCE:
            pass
        assert ask(server, "/healthz") == (200, b"ok\n")
        all_there.set()
        assert all(client.recv(15) == b"HTTP/1.1 200 OK" for client in clients)
        assert len(began) == 50
        assert len({*began}) <= MADE_AT_ONCE
        for client in clients:
            client.close()

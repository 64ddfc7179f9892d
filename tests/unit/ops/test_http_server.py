import http.client
import json
import socket

import pytest

from sluice.ops.http_server import OpsServer, PortError
from sluice.ops.pipelines import Pipelines, Role, State
from tests.unit.ops.registered import registered


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


def test_a_port_in_use_is_an_error_that_says_what_to_do():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortError, match=rf"cannot serve on port {port} .*--http-port"):
            OpsServer(port, lambda: b"", Pipelines(), "127.0.0.1")

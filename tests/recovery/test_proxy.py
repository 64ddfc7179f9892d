"""The faults of the proxy, as a plain TCP client sees them."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.kafka.topics import create
from tests.recovery.harness.proxy import Proxy, proxied_broker
from tests.recovery.harness.tcp_server import TcpServer
from tests.unit.kafka.broker_tools import end, visible
from tests.unit.test_processes import await_true


class Echo(TcpServer):
    """Answers each piece of data with the same data, and remembers it."""

    def __init__(self) -> None:
        self.received = b""
        super().__init__()

    def serve(self, connection: socket.socket) -> None:
        while data := connection.recv(100):
            self.received += data
            connection.sendall(data)


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.address) as one:
        yield one


def connect(proxy: Proxy, timeout: float = 10) -> socket.socket:
    host, port = proxy.address.split(":")
    return socket.create_connection((host, int(port)), timeout=timeout)


def asked(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    return client.recv(100)


def test_it_forwards_both_directions(proxy):
    with connect(proxy) as one, connect(proxy) as two:
        assert (asked(one, b"1"), asked(two, b"2"), asked(one, b"3")) == (b"1", b"2", b"3")


def test_held_answers_arrive_after_resume(proxy, echo):
    with connect(proxy) as client:
        proxy.hold_answers()
        client.sendall(b"held")
        await_true(lambda: echo.received == b"held")
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(100)
        proxy.resume()
        client.settimeout(10)
        assert client.recv(100) == b"held"


def test_held_requests_do_not_reach_the_server(proxy, echo):
    with connect(proxy) as client:
        assert asked(client, b"1") == b"1"
        proxy.hold_requests()
        client.sendall(b"2")
        time.sleep(0.3)
        assert echo.received == b"1"
        proxy.resume()
        assert client.recv(100) == b"2"


def test_held_answers_are_lost_with_a_reset(proxy, echo):
    with connect(proxy) as client:
        proxy.hold_answers()
        client.sendall(b"lost")
        await_true(lambda: echo.received == b"lost")
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            client.recv(100)
        proxy.resume()
    with connect(proxy) as client:
        assert asked(client, b"next") == b"next"


def test_cut_connections_end_in_order(proxy):
    with connect(proxy) as client:
        assert asked(client, b"1") == b"1"
        proxy.cut()
        assert client.recv(100) == b""


def test_refused_connections_are_accepted_again_at_the_same_address(proxy):
    address = proxy.address
    with connect(proxy) as client:
        assert asked(client, b"1") == b"1"
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        assert asked(client, b"an open connection stays") == b"an open connection stays"
        proxy.accept()
    assert proxy.address == address
    with connect(proxy) as client:
        assert asked(client, b"2") == b"2"


def test_a_delay_is_added_to_each_direction(proxy):
    with connect(proxy) as client:
        proxy.delay(requests=0.1, answers=0.2)
        began = time.monotonic()
        assert asked(client, b"1") == b"1"
        assert 0.3 <= time.monotonic() - began < 5


@pytest.mark.kafka
def test_clients_of_a_proxied_broker_stay_behind_the_proxy():
    with proxied_broker() as (proxy, broker):
        create({"bootstrap.servers": broker.bootstrap}, NewTopic("t", 1))
        brokers = AdminClient({"bootstrap.servers": proxy.address}).list_topics(timeout=10).brokers.values()
        assert [f"{one.host}:{one.port}" for one in brokers] == [proxy.address]
        producer = Producer({"bootstrap.servers": proxy.address, "linger.ms": 0})
        producer.produce("t", b"before")
        assert producer.flush(10) == 0
        proxy.hold_answers()
        producer.produce("t", b"held")
        assert producer.flush(1) == 1
        await_true(lambda: end({"bootstrap.servers": broker.bootstrap}, "t", 0) == 2)
        proxy.reset()
        proxy.resume()
        assert producer.flush(20) == 0
        values = [message.value() for message in visible({"bootstrap.servers": broker.bootstrap}, "t")]
        assert values[:2] == [b"before", b"held"]


@pytest.mark.kafka
def test_a_frozen_broker_answers_after_it_is_thawed():
    with EmbeddedBroker() as broker:
        client = AdminClient({"bootstrap.servers": broker.bootstrap})
        client.list_topics(timeout=10)
        broker.freeze()
        try:
            with pytest.raises(Exception, match=r"_TIMED_OUT|_TRANSPORT"):
                client.list_topics(timeout=1)
        finally:
            broker.thaw()
        assert client.list_topics(timeout=10).brokers

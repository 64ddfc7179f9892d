"""The faults of single requests, as a client and a broker of plain sockets see them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import ClassVar

import pytest

from tests.chaos.kafka_frames import ANSWER, LENGTH, REQUEST, Api, Effect, FrameFault, FrameFaults, frames
from tests.recovery.harness.proxy import Proxy
from tests.recovery.harness.tcp_server import TcpServer


class Broker(TcpServer):
    """Answers each request with its number and its text, and remembers the numbers."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.arrived = threading.Condition()
        super().__init__()

    def serve(self, connection: socket.socket) -> None:
        for frame in frames(iter(lambda: connection.recv(7), b"")):
            _, _, number = REQUEST.unpack_from(frame, LENGTH.size)
            with self.arrived:
                self.received.append(number)
                self.arrived.notify_all()
            connection.sendall(LENGTH.pack(ANSWER.size) + ANSWER.pack(number))

    def await_count(self, count: int) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.received) >= count, 10)


class Client:
    """A connection of a client; `close_all` closes those of a test."""

    opened: ClassVar[list[socket.socket]] = []

    @classmethod
    def close_all(cls) -> None:
        while cls.opened:
            cls.opened.pop().close()

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self.opened.append(self._socket)
        self._answers = frames(iter(lambda: self._socket.recv(5), b""))

    def send(self, api: Api, number: int) -> None:
        text = REQUEST.pack(api, 1, number) + b"client"
        self._socket.sendall(LENGTH.pack(len(text)) + text)

    def answer(self) -> int | None:
        """The number of the next answer; None if the connection has ended."""
        try:
            frame = next(self._answers, None)
        except ConnectionResetError:
            return None
        return None if frame is None else int(ANSWER.unpack_from(frame, LENGTH.size)[0])

    def asks(self, api: Api, number: int) -> int | None:
        self.send(api, number)
        return self.answer()

    def silent(self) -> bool:
        self._socket.settimeout(0.2)
        try:
            return self.answer() is not None
        except TimeoutError:
            return True


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.close()


@pytest.fixture
def faults() -> FrameFaults:
    return FrameFaults()


@pytest.fixture
def proxy(broker: Broker, faults: FrameFaults) -> Iterator[Proxy]:
    with Proxy(broker.address, through=faults) as proxy:
        yield proxy
        Client.close_all()


def test_without_a_fault_each_request_and_each_answer_arrives(broker, proxy):
    client = Client(proxy.address)
    assert [client.asks(Api.PRODUCE, number) for number in range(3)] == [0, 1, 2]
    assert broker.received == [0, 1, 2]


def test_a_fault_meets_the_nth_request_of_its_kind(broker, proxy, faults):
    fault = FrameFault(Api.END_TXN, Effect.CUT, nth=2)
    faults.arm(fault)
    client = Client(proxy.address)
    assert client.asks(Api.END_TXN, 1) == 1
    assert client.asks(Api.PRODUCE, 2) == 2
    assert not fault.happened.is_set()
    assert client.asks(Api.END_TXN, 3) is None
    assert fault.happened.is_set()
    assert broker.received == [1, 2]


def test_a_fault_happens_once(proxy, faults):
    faults.arm(FrameFault(Api.FETCH, Effect.CUT))
    assert Client(proxy.address).asks(Api.FETCH, 1) is None
    assert Client(proxy.address).asks(Api.FETCH, 2) == 2


def test_a_fault_that_is_disarmed_does_not_happen(proxy, faults):
    faults.arm(FrameFault(Api.FETCH, Effect.CUT))
    faults.disarm()
    assert Client(proxy.address).asks(Api.FETCH, 1) == 1


def test_an_answer_is_lost_and_the_broker_has_the_request(broker, proxy, faults):
    faults.arm(FrameFault(Api.END_TXN, Effect.LOSE))
    assert Client(proxy.address).asks(Api.END_TXN, 7) is None
    assert broker.received == [7]


def test_a_request_is_repeated_and_the_client_gets_one_answer(broker, proxy, faults):
    faults.arm(FrameFault(Api.PRODUCE, Effect.REPEAT))
    client = Client(proxy.address)
    assert client.asks(Api.PRODUCE, 1) == 1
    assert client.asks(Api.PRODUCE, 2) == 2
    assert broker.received == [1, 1, 2]


def test_a_request_arrives_after_its_connection_has_ended(broker, proxy, faults):
    faults.arm(FrameFault(Api.END_TXN, Effect.LATE, seconds=0.05))
    assert Client(proxy.address).asks(Api.END_TXN, 1) is None
    broker.await_count(1)
    assert broker.received == [1]


def test_a_request_is_delayed(proxy, faults):
    faults.arm(FrameFault(Api.METADATA, Effect.DELAY, seconds=0.05))
    assert Client(proxy.address).asks(Api.METADATA, 1) == 1


def test_nothing_arrives_on_a_half_open_connection_and_other_connections_go_on(broker, proxy, faults):
    faults.arm(FrameFault(Api.FETCH, Effect.HALF))
    client = Client(proxy.address)
    client.send(Api.FETCH, 1)
    client.send(Api.FETCH, 2)
    assert client.silent()
    assert Client(proxy.address).asks(Api.FETCH, 3) == 3
    assert broker.received == [3]

"""A TCP proxy between Kafka's clients and a broker, with which a test makes the network fail.

    client --> proxy --> broker          requests
    client <-- proxy <-- broker          answers

The broker has to advertise the proxy's address, because a client connects to the addresses in the broker's metadata.
`proxied_broker` sets this up: what connects to `proxy.address` stays behind the proxy, and the test itself connects to
`broker.bootstrap`, which no fault reaches.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Protocol, Self

from sluice.kafka.embedded_broker import EmbeddedBroker

LISTENER = "PROXIED"
CHUNK = 1 << 16
#: seconds between two looks at whether the proxy is to accept connections
INTERVAL = 0.02
#: makes the close of a socket send RST instead of FIN
ABORT = struct.pack("ii", 1, 0)


class Filter(Protocol):
    """What becomes of the bytes of a connection on their way. It may end the connection, wait, leave out, repeat."""

    def requests(self, connection: Connection, pieces: Iterable[bytes]) -> Iterator[bytes]: ...

    def answers(self, connection: Connection, pieces: Iterable[bytes]) -> Iterator[bytes]: ...


class Proxy:
    """Forwards TCP connections to `target`; each method takes effect at once and from any thread.

    Connections that are accepted while there is no target are closed at once.
    """

    def __init__(self, target: str | None = None, *, through: Filter | None = None) -> None:
        """`target` is `host:port`; `forward_to` sets it later. `through`: every byte passes this filter."""
        self._target, self._filter = target, through
        self._listener: socket.socket | None = None
        self._port = 0
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self.requests, self.answers = _Flow(), _Flow()
        #: number of connections that were accepted since the start
        self.accepted = 0
        self._stopped = threading.Event()
        self.accept()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """`host:port` to which clients connect. It stays the same."""
        return f"127.0.0.1:{self._port}"

    def forward_to(self, target: str) -> None:
        self._target = target

    def hold_requests(self) -> None:
        """No byte reaches the broker any more. Connections stay open, and `resume` sends what was held."""
        self.requests.hold()

    def hold_answers(self) -> None:
        """The broker receives and handles each request; no byte of its answers reaches a client.

        `resume` sends what was held; after `cut` or `reset` the held answers are lost.
        """
        self.answers.hold()

    def delay(self, requests: float = 0.0, answers: float = 0.0) -> None:
        """Seconds by which each piece of data is late, in both directions; the order stays."""
        self.requests.seconds, self.answers.seconds = requests, answers

    def resume(self) -> None:
        """Ends `hold_requests`, `hold_answers` and `delay`."""
        self.delay()
        self.requests.resume()
        self.answers.resume()

    def cut(self) -> None:
        """Closes all connections in order (FIN) on both sides. New ones are accepted."""
        self._end_all(abort=False)

    def reset(self) -> None:
        """Aborts all connections (RST) on both sides. New ones are accepted."""
        self._end_all(abort=True)

    def refuse(self) -> None:
        """New connections are refused by the operating system (ECONNREFUSED), until `accept`."""
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            # `close` alone lets a thread that is in `accept` take one more connection.
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def accept(self) -> None:
        """Ends `refuse`."""
        with self._lock:
            if self._listener is None:
                listener = socket.socket()
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("127.0.0.1", self._port))
                listener.listen(64)
                listener.settimeout(INTERVAL)
                self._port = listener.getsockname()[1]
                self._listener = listener

    def stop(self) -> None:
        self._stopped.set()
        self.refuse()
        self.reset()
        self.resume()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stopped.is_set():
            listener = self._listener
            if listener is None:
                self._stopped.wait(INTERVAL)
                continue
            with suppress(OSError):  # no client connected, or the listener was closed meanwhile
                client, _ = listener.accept()
                client.settimeout(None)
                self.accepted += 1
                self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        if self._target is None:
            client.close()
            return
        host, port = self._target.rsplit(":", 1)
        try:
            broker = socket.create_connection((host, int(port)), timeout=5)
        except OSError:
            client.close()
            return
        broker.settimeout(None)
        for one in (client, broker):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(client, broker, self._filter)
        with self._lock:
            self._connections = {one for one in self._connections if not one.ended} | {connection}
        connection.start(self.requests, self.answers)

    def _end_all(self, *, abort: bool) -> None:
        with self._lock:
            connections, self._connections = self._connections, set()
        for connection in connections:
            connection.end(abort=abort)


class _Flow:
    """One direction of all connections."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self.seconds = 0.0

    def hold(self) -> None:
        self._open.clear()

    def resume(self) -> None:
        self._open.set()

    def wait(self) -> None:
        if self.seconds:
            time.sleep(self.seconds)
        self._open.wait()


class Connection:
    """A client's connection and the connection to the broker that belongs to it."""

    def __init__(self, client: socket.socket, broker: socket.socket, through: Filter | None) -> None:
        self._client, self._broker, self._filter = client, broker, through
        self.ended = False

    def start(self, requests: _Flow, answers: _Flow) -> None:
        to_broker, to_client = _pieces(self._client), _pieces(self._broker)
        if self._filter is not None:
            to_broker, to_client = self._filter.requests(self, to_broker), self._filter.answers(self, to_client)
        for pieces, sink, flow in ((to_broker, self._broker, requests), (to_client, self._client, answers)):
            threading.Thread(target=self._pump, args=(pieces, sink, flow), name="proxy-pump", daemon=True).start()

    def end_client(self) -> None:
        """Ends the client's side alone: what is still on its way to the broker arrives."""
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)

    def end(self, *, abort: bool = False) -> None:
        self.ended = True
        for one in (self._client, self._broker):
            with suppress(OSError):
                if abort:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
                # A thread in `recv` keeps the socket open beyond `close`. SHUT_RD wakes it and sends no FIN.
                one.shutdown(socket.SHUT_RD if abort else socket.SHUT_RDWR)
            one.close()

    def _pump(self, pieces: Iterable[bytes], sink: socket.socket, flow: _Flow) -> None:
        with suppress(OSError):  # the other thread, or the test, closed a socket
            for data in pieces:
                flow.wait()
                sink.sendall(data)
        if not self.ended:
            self.end()


def _pieces(source: socket.socket) -> Iterator[bytes]:
    while data := source.recv(CHUNK):
        yield data


@contextmanager
def proxied_broker(properties: Mapping[str, str] | None = None) -> Iterator[tuple[Proxy, EmbeddedBroker]]:
    """A broker that advertises the proxy's address to whatever connects through the proxy."""
    with (
        Proxy() as proxy,
        EmbeddedBroker(properties, listeners={LISTENER: "PLAINTEXT"}, advertised={LISTENER: proxy.address}) as broker,
    ):
        proxy.forward_to(broker.bootstrap_of(LISTENER))
        yield proxy, broker

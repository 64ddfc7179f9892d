"""Starts and stops a real Kafka broker on this machine, for `sluice demo`, the benchmark and the tests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import NamedTuple, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from sluice.jvm.jars import jars
from sluice.jvm.java import find_java
from sluice.model.errors import SluiceError
from sluice.processes import ChildProcess

#: below the ports that a system gives to outgoing connections: from 32,768 on Linux, from 49,152 on macOS and Windows
LISTENING_PORTS = range(10_000, 32_768)

PROPERTIES = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A broker that was killed can register again only after this time-out.
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "500",
    # The broker accepts records with any timestamp, past or future, and never deletes old ones.
    "log.retention.ms": "-1",
    "log.message.timestamp.before.max.ms": str(2**63 - 1),
    "log.message.timestamp.after.max.ms": str(2**63 - 1),
    "log.retention.check.interval.ms": "600000",
}

START_SECONDS = 180
ATTEMPTS = 3


class BrokerError(SluiceError):
    exit_code = 3


class Member(NamedTuple):
    """A broker's membership in a cluster: its node number, the controller port of every node, and the cluster's id."""

    node: int
    controllers: Mapping[int, int]
    cluster: str


class Running(ABC):
    """Processes that run during a `with` block. They are stopped if their start fails."""

    def __enter__(self) -> Self:
        with ExitStack() as on_failure:
            on_failure.callback(self.stop)
            self._start()
            on_failure.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def _start(self) -> None:
        """Starts the processes, and returns when they serve requests."""

    @abstractmethod
    def stop(self) -> None:
        """Ends the processes and removes their data."""


class EmbeddedBroker(Running):
    """One Kafka node (KRaft) in its own process and session, with its data in a temporary folder."""

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        heap: str = "512m",
        listeners: Mapping[str, str] | None = None,
        advertised: Mapping[str, str] | None = None,
        member: Member | None = None,
        *,
        port: int | None = None,
    ) -> None:
        """Stores the settings; `with` or `launch` starts the broker.

        properties   further Kafka properties, which override the defaults
        heap         maximum heap of the JVM (`-Xmx`)
        listeners    further listeners beside PLAINTEXT: name -> security protocol
        advertised   name of a listener -> `host:port` to which its clients connect, for instance of a proxy; by default
                     the listener's own address
        member       the broker's membership in a cluster of several; None for a single broker
        port         the port of PLAINTEXT on 127.0.0.1; None: a free one
        """
        self._port = port
        self._member = member
        self._node = member.node if member else 1
        self._extra = dict(properties or {})
        self._advertised = dict(advertised or {})
        self._protocols = {"PLAINTEXT": "PLAINTEXT", **(listeners or {})}
        self._ports = dict.fromkeys(self._protocols, 0)
        self._heap = heap
        self._folder: Path | None = None
        self._process: ChildProcess | None = None

    @property
    def bootstrap(self) -> str:
        return self.bootstrap_of("PLAINTEXT")

    def bootstrap_of(self, listener: str) -> str:
        return f"127.0.0.1:{self._ports[listener]}"

    @property
    def pid(self) -> int:
        return self._running.pid

    def stop(self) -> None:
        """Kills the process and removes its data."""
        self.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def kill(self) -> None:
        """Sends SIGKILL. The data are kept for `restart`."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def terminate(self, seconds: float = 30.0) -> None:
        """Sends SIGTERM, and SIGKILL after `seconds`. The data are kept for `restart`."""
        if self._process is not None:
            self._process.terminate(seconds)
            self._process = None

    def launch(self) -> None:
        """Starts the broker with an empty data folder, and does not wait until it answers (see `await_answer`)."""
        self._prepare()
        self._launch()

    def freeze(self) -> None:
        """Sends SIGSTOP: connections stay open, and the broker answers nothing until `thaw`.

        Returns when all threads of the broker have stopped.
        """
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> None:
        """Sends SIGCONT, which ends `freeze`."""
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> None:
        """Starts the broker again after `kill` or `terminate`, with the same ports and data."""
        self._launch()
        self.await_answer()

    @property
    def _data(self) -> Path:
        if self._folder is None:
            raise BrokerError("the broker is not started")
        return self._folder

    @property
    def _running(self) -> ChildProcess:
        if self._process is None:
            raise BrokerError("the broker is not running")
        return self._process

    def _start(self) -> None:
        """Starts the broker, in at most ATTEMPTS attempts with new ports each.

        An attempt fails if, for instance, another process has taken a port since `free_ports` found it free.
        """
        for attempt in range(1, ATTEMPTS + 1):
            self._prepare()
            self._launch()
            try:
                self.await_answer()
            except BrokerError:
                self.stop()
                if attempt == ATTEMPTS:
                    raise
            else:
                return

    def _prepare(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="sluice-broker-"))
        controller, *ports = free_ports(1 + len(self._protocols))
        node, controllers, cluster = self._member or Member(self._node, {self._node: controller}, new_cluster())
        self._ports = dict(zip(self._protocols, ports, strict=True))
        if self._port is not None:
            self._ports["PLAINTEXT"] = self._port
        listeners = ",".join(f"{name}://{self.bootstrap_of(name)}" for name in self._protocols)
        advertised = {name: self.bootstrap_of(name) for name in self._protocols} | self._advertised
        protocols = ",".join(f"{name}:{protocol}" for name, protocol in self._protocols.items())
        properties = PROPERTIES | {
            "node.id": str(node),
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controllers[node]}",
            "advertised.listeners": ",".join(f"{name}://{address}" for name, address in advertised.items()),
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{protocols}",
            "controller.quorum.voters": ",".join(f"{member}@127.0.0.1:{port}" for member, port in controllers.items()),
            "log.dirs": str(self._folder / "data"),
        }
        text = "".join(f"{name}={value}\n" for name, value in (properties | self._extra).items())
        (self._folder / "server.properties").write_text(text)
        formatted = subprocess.run(
            [
                *self._java(),
                "kafka.tools.StorageTool",
                "format",
                f"--cluster-id={cluster}",
                "-c",
                self._properties_file(),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if formatted.returncode:
            raise BrokerError(f"the broker's folder could not be formatted: {formatted.stdout}{formatted.stderr}")

    def _launch(self) -> None:
        command = [*self._java(), "kafka.Kafka", self._properties_file()]
        self._process = ChildProcess(command, folder=self._data, log=self._data / "broker.log")

    def _java(self) -> list[str]:
        class_path = os.pathsep.join(map(str, jars("broker")))
        return [
            *(find_java(), f"-Xmx{self._heap}", "-XX:+UseSerialGC"),
            *("-XX:-UsePerfData", f"-Djava.io.tmpdir={self._data}"),  # a killed JVM leaves no files elsewhere
            *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path),
        ]

    def _properties_file(self) -> str:
        return str(self._data / "server.properties")

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process; None while it runs."""
        return self._running.exit_code

    def await_answer(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._running.exit_code is not None or time.monotonic() > deadline:
                log = (self._data / "broker.log").read_text(errors="replace")[-3000:]
                raise BrokerError(f"the broker did not start; its log ends:\n{log}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        """Whether the broker has joined its cluster and consumer groups have a coordinator, which comes a little later.

        A broker answers requests before it has joined: at first it lists only the other brokers.
        """
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self._ports["PLAINTEXT"])):
                return False
        client = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "sluice.start", "log_level": 0})
        try:
            joined = self._node in client.list_topics(timeout=5).brokers
            return joined and not client.committed([TopicPartition("any", 0)], timeout=5)[0].error
        except KafkaException:
            return False
        finally:
            client.close()


def new_cluster() -> str:
    """A random id for a new cluster, in the form that Kafka expects."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def free_ports(count: int) -> list[int]:
    """`count` TCP ports of LISTENING_PORTS that are free. Another process may take them before the caller does."""
    with ExitStack() as stack:
        ports: list[int] = []
        for port in SystemRandom().sample(LISTENING_PORTS, 100 + count):
            if len(ports) == count:
                break
            with suppress(OSError):  # it is in use
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
                ports.append(port)
        return ports

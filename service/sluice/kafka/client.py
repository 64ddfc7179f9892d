"""Kafka clients: their properties, translated from the `kafka:` block of a pipeline file, and the loggers of messages
about Kafka.

The block has librdkafka's property names. The service's own clients are librdkafka and take them as they are. Spark
reads with Kafka's Java client, whose names and values differ.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Literal

from sluice.kafka.kafka_errors import PropertyError
from sluice.model.kafka_properties import AUTHORITY, CERTIFICATE, KEY, NO_SERVERS, faults, pem

#: the parts in which repetitions of a message differ: numbers, and counts of suppressed errors
VARYING = re.compile(r", \d+ identical error\(s\) suppressed|\d+")


LOGGER = logging.getLogger("sluice.kafka")
#: the logger that the client library writes to
CLIENT = LOGGER.getChild("client")
Role = Literal["admin", "consumer", "producer"]
#: librdkafka's alternative names of properties -> the names that this module uses
ALIASES = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "compression.codec": "compression.type",
    "queue.buffering.max.ms": "linger.ms",
    "message.send.max.retries": "retries",
    "request.required.acks": "acks",
}
#: properties of every client: librdkafka's name -> the Java client's name. "": the Java client gets a property that the
#: functions below build, or has no such property
COMMON = {
    "bootstrap.servers": "bootstrap.servers",
    "client.id": "client.id",
    "client.dns.lookup": "client.dns.lookup",
    "client.rack": "client.rack",
    "connections.max.idle.ms": "connections.max.idle.ms",
    "metadata.max.age.ms": "metadata.max.age.ms",
    "metadata.recovery.strategy": "metadata.recovery.strategy",
    "reconnect.backoff.ms": "reconnect.backoff.ms",
    "reconnect.backoff.max.ms": "reconnect.backoff.max.ms",
    "retry.backoff.ms": "retry.backoff.ms",
    "retry.backoff.max.ms": "retry.backoff.max.ms",
    "security.protocol": "security.protocol",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.timeout.ms": "request.timeout.ms",
    "broker.address.family": "",
    "broker.address.ttl": "",
    "debug": "",
    "log_level": "",
    "socket.keepalive.enable": "",
    "topic.metadata.refresh.interval.ms": "",
    "sasl.mechanism": "",
    "sasl.password": "",
    "sasl.username": "",
    "ssl.ca.location": "",
    "ssl.ca.pem": "",
    "ssl.certificate.location": "",
    "ssl.certificate.pem": "",
    "ssl.endpoint.identification.algorithm": "",
    "ssl.key.location": "",
    "ssl.key.password": "",
    "ssl.key.pem": "",
}
#: properties of consumers: librdkafka's name -> the Java client's name
CONSUMER = {
    "check.crcs": "check.crcs",
    "fetch.max.bytes": "fetch.max.bytes",
    "fetch.min.bytes": "fetch.min.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "max.partition.fetch.bytes": "max.partition.fetch.bytes",
}
#: properties of producers: librdkafka's names. Spark's Java client only reads
PRODUCER = {
    "batch.num.messages",
    "batch.size",
    "compression.level",
    "compression.type",
    "delivery.timeout.ms",
    "linger.ms",
    "message.timeout.ms",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "request.timeout.ms",
    "retries",
    "transaction.timeout.ms",
}
#: Properties of the service's own clients, which the `kafka:` block may override. A re-bootstrap of librdkafka removes
#: the brokers from the client's view. If a transaction waits for one of them, the coordinator, that wait never ends
#: (librdkafka issue 5511). With "none", a client reconnects to the brokers in its view. If all brokers have new
#: addresses, the service makes a new client, which connects to `bootstrap.servers` (requests.py, ledger_follower.py).
#: A connection may be half-open: nothing arrives, and nothing ends it. A client notices that when a request on it times
#: out, by default after a minute; the attempts of a start would then wait for minutes in all.
DEFAULTS: dict[str, object] = {"metadata.recovery.strategy": "none", "socket.timeout.ms": 15_000}
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


class RepeatedMessageFilter(logging.Filter):
    """Passes a message at most once in `seconds`. Messages that differ only in numbers count as the same message.

    The library repeats a message ten times a second while a broker is unreachable.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        message = VARYING.sub("", record.getMessage())
        repeated = message in self._last and record.created - self._last[message] < self._seconds
        if not repeated:
            self._last[message] = record.created
        return not repeated


CLIENT.addFilter(RepeatedMessageFilter(30.0))


def client_properties(kafka: Mapping[str, str], role: Role) -> dict[str, object]:
    """The properties of a confluent-kafka client in this role. Raises PropertyError as `checked` does."""
    names = {"admin": {*COMMON}, "consumer": {*COMMON, *CONSUMER}, "producer": {*COMMON, *PRODUCER}}[role]
    chosen = {name: value for name, value in checked(kafka).items() if name in names}
    return {"logger": CLIENT} | DEFAULTS | _socket_timeout(chosen) | chosen


def _socket_timeout(properties: Mapping[str, str]) -> dict[str, object]:
    """A time-out of requests that the client accepts beside these properties, if the default is none."""
    default = int(str(DEFAULTS["socket.timeout.ms"]))
    longest = int(properties.get("transaction.timeout.ms", default))
    shortest = int(properties.get("fetch.wait.max.ms", 0)) + 1000
    return {"socket.timeout.ms": max(min(default, longest), shortest)}


def java_properties(kafka: Mapping[str, str]) -> dict[str, str]:
    """The properties of the Java consumer with which Spark reads, without Spark's prefix `kafka.`.

    Raises PropertyError as `checked` does.
    """
    properties = checked(kafka)
    translated = {java: properties[name] for name, java in (COMMON | CONSUMER).items() if java and name in properties}
    if "security.protocol" in translated:
        translated["security.protocol"] = translated["security.protocol"].upper()
    for buffer in ("receive.buffer.bytes", "send.buffer.bytes"):
        if translated.get(buffer) == "0":  # the operating system's default; -1 in the Java client
            translated[buffer] = "-1"
    return translated | _login(properties) | _trust(properties) | _identity(properties)


def checked(kafka: Mapping[str, str]) -> dict[str, str]:
    """The properties, with alternative names (ALIASES) replaced. Raises PropertyError for one that cannot be used."""
    properties = {ALIASES.get(name, name): str(value) for name, value in kafka.items()}
    for fault in faults(properties):
        shown_value = "nothing" if fault.got is None else repr(fault.got)
        hint = f" (did you mean {fault.hint}?)" if fault.hint else ""
        raise PropertyError(f"kafka.{fault.name}: expected {fault.expected}, got {shown_value}{hint}")
    if "bootstrap.servers" not in properties:
        raise PropertyError(NO_SERVERS)
    if "sasl.mechanism" in properties:  # librdkafka accepts only capitals
        properties["sasl.mechanism"] = properties["sasl.mechanism"].upper()
    return properties


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    if "sasl.mechanism" not in properties:
        return {}
    mechanism = properties["sasl.mechanism"]
    user, password = (_quoted(properties[f"sasl.{name}"]) for name in ("username", "password"))
    login = f"{LOGIN_MODULES[mechanism]} required username={user} password={password};"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _trust(properties: Mapping[str, str]) -> dict[str, str]:
    trust = {}
    authorities = pem(properties, AUTHORITY)
    if authorities:
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities}
    if "ssl.endpoint.identification.algorithm" in properties:
        algorithm = properties["ssl.endpoint.identification.algorithm"].lower()
        trust["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    return trust


def _identity(properties: Mapping[str, str]) -> dict[str, str]:
    certificate, key = pem(properties, CERTIFICATE), pem(properties, KEY)
    if not certificate or not key:
        return {}
    password = properties.get("ssl.key.password")
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate,
        "ssl.keystore.key": key,
        **({"ssl.key.password": password} if password else {}),
    }

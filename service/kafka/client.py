"""The `kafka:` block of a pipeline file for each client that reads it.

Users write librdkafka's names once. Our own clients are librdkafka; Spark reads with Kafka's Java client, whose names
and ways differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from service.kafka.errors import PropertyError
from service.kafka.log import CLIENT

Role = Literal["admin", "consumer", "producer"]

#: librdkafka's other names for a property -> the name used here
ALIASES = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "compression.codec": "compression.type",
    "queue.buffering.max.ms": "linger.ms",
    "message.send.max.retries": "retries",
    "request.required.acks": "acks",
}

#: of every client: librdkafka's name -> the Java client's, "" where `_security` makes its own of it or there is none
COMMON = {
    "bootstrap.servers": "bootstrap.servers",
    "client.id": "client.id",
    "client.dns.lookup": "client.dns.lookup",
    "client.rack": "client.rack",
    "connections.max.idle.ms": "connections.max.idle.ms",
    "metadata.max.age.ms": "metadata.max.age.ms",
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
    "sasl.kerberos.service.name": "sasl.kerberos.service.name",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.password": "",
    "sasl.username": "",
    "ssl.ca.location": "",
    "ssl.ca.pem": "",
    "ssl.certificate.location": "",
    "ssl.certificate.pem": "",
    "ssl.cipher.suites": "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm": "",
    "ssl.key.location": "",
    "ssl.key.password": "",
    "ssl.key.pem": "",
}

#: of those that read
CONSUMER = {
    "check.crcs": "check.crcs",
    "fetch.max.bytes": "fetch.max.bytes",
    "fetch.min.bytes": "fetch.min.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "max.partition.fetch.bytes": "max.partition.fetch.bytes",
}

#: of those that write
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

#: those that decide whether outputs are exact, which is our business
OURS = {
    "acks",
    "auto.offset.reset",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "group.id",
    "group.instance.id",
    "isolation.level",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "message.max.bytes",
    "partitioner",
    "transactional.id",
}

KNOWN = {*COMMON, *CONSUMER, *PRODUCER}
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def client_properties(kafka: Mapping[str, str], role: Role) -> dict[str, object]:
    """For a client of confluent-kafka in this role."""
    names = {"admin": {*COMMON}, "consumer": {*COMMON, *CONSUMER}, "producer": {*COMMON, *PRODUCER}}[role]
    return {"logger": CLIENT} | {name: value for name, value in checked(kafka).items() if name in names}


def java_properties(kafka: Mapping[str, str]) -> dict[str, str]:
    """For the Java consumer with which Spark reads, without any prefix."""
    properties = checked(kafka)
    translated = {java: properties[name] for name, java in (COMMON | CONSUMER).items() if java and name in properties}
    if "security.protocol" in translated:
        translated["security.protocol"] = translated["security.protocol"].upper()
    return translated | _login(properties) | _trust(properties) | _identity(properties)


def checked(kafka: Mapping[str, str]) -> dict[str, str]:
    """The properties under their first names. Raises PropertyError for one that cannot be used."""
    properties = {ALIASES.get(name, name): str(value) for name, value in kafka.items()}
    for name in properties:
        _require_known(name)
    if "bootstrap.servers" not in properties:
        message = "kafka: expected the property bootstrap.servers (host:port of a broker), got none"
        raise PropertyError(message)
    return properties


def _require_known(name: str) -> None:
    if name in OURS:
        message = f"kafka.{name}: Sluice sets this property itself; leave it out"
        raise PropertyError(message)
    if name not in KNOWN:
        near = get_close_matches(name, KNOWN, 1)
        advice = f"; did you mean {near[0]}?" if near else ""
        message = f"kafka.{name}: expected a client property by its librdkafka name, got {name!r}{advice}"
        raise PropertyError(message)


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    if "sasl.username" not in properties:
        return {}
    mechanism = properties.get("sasl.mechanism", "").upper()
    if mechanism not in LOGIN_MODULES:
        message = f"kafka.sasl.mechanism: expected one of {', '.join(LOGIN_MODULES)}, got {mechanism or 'nothing'}"
        raise PropertyError(message)
    user, password = (_quoted(properties.get(f"sasl.{name}", "")) for name in ("username", "password"))
    login = f"{LOGIN_MODULES[mechanism]} required username={user} password={password};"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _trust(properties: Mapping[str, str]) -> dict[str, str]:
    trust = {}
    authorities = _pem(properties, "ssl.ca")
    if authorities:
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities}
    if "ssl.endpoint.identification.algorithm" in properties:
        algorithm = properties["ssl.endpoint.identification.algorithm"]
        trust["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    return trust


def _identity(properties: Mapping[str, str]) -> dict[str, str]:
    certificate, key = _pem(properties, "ssl.certificate"), _pem(properties, "ssl.key")
    if not certificate or not key:
        return {}
    password = properties.get("ssl.key.password")
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate,
        "ssl.keystore.key": key,
        **({"ssl.key.password": password} if password else {}),
    }


def _pem(properties: Mapping[str, str], name: str) -> str | None:
    """The PEM text of a property, given itself (`.pem`) or by its file (`.location`)."""
    if f"{name}.location" not in properties:
        return properties.get(f"{name}.pem")
    file = properties[f"{name}.location"]
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        message = f"kafka.{name}.location: expected a readable PEM file, got {file!r} ({error})"
        raise PropertyError(message) from error

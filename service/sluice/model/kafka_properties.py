"""The librdkafka properties that may be given under `kafka`, and the checks of their values and combinations.

Every client must support a property: the service's own clients, which use librdkafka, and Spark's source, which uses
Kafka's Java client. kafka/client.py converts the properties for each client.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from sluice.files import read_file
from sluice.model.errors import SluiceError, nearest, one_of

#: properties that the service sets itself, because exactly-once outputs depend on them
RESERVED = frozenset({
    "acks", "auto.offset.reset", "enable.auto.commit", "enable.auto.offset.store", "enable.idempotence", "group.id",
    "group.instance.id", "isolation.level", "max.in.flight", "max.in.flight.requests.per.connection",
    "message.max.bytes", "partitioner", "request.required.acks", "transactional.id",
})  # fmt: skip

NUMBERS = frozenset({
    # brokers and connections
    "broker.address.ttl", "connections.max.idle.ms", "log_level", "metadata.max.age.ms", "reconnect.backoff.max.ms",
    "reconnect.backoff.ms", "retry.backoff.max.ms", "retry.backoff.ms", "socket.connection.setup.timeout.ms",
    "socket.receive.buffer.bytes", "socket.send.buffer.bytes", "socket.timeout.ms",
    "topic.metadata.refresh.interval.ms",
    # reading
    "fetch.max.bytes", "fetch.message.max.bytes", "fetch.min.bytes", "fetch.wait.max.ms", "max.partition.fetch.bytes",
    # writing
    "batch.num.messages", "batch.size", "compression.level", "delivery.timeout.ms", "linger.ms",
    "message.send.max.retries", "message.timeout.ms", "queue.buffering.max.kbytes", "queue.buffering.max.messages",
    "queue.buffering.max.ms", "request.timeout.ms", "retries", "transaction.timeout.ms",
})  # fmt: skip

TEXTS = frozenset({
    "bootstrap.servers", "metadata.broker.list", "broker.address.family", "check.crcs", "client.dns.lookup",
    "client.id", "client.rack", "compression.codec", "compression.type", "debug", "metadata.recovery.strategy",
    "sasl.mechanism", "sasl.mechanisms",
    "sasl.password", "sasl.username", "security.protocol", "socket.keepalive.enable", "ssl.ca.location", "ssl.ca.pem",
    "ssl.certificate.location", "ssl.certificate.pem", "ssl.endpoint.identification.algorithm", "ssl.key.location",
    "ssl.key.password", "ssl.key.pem",
})  # fmt: skip

KNOWN = NUMBERS | TEXTS
#: the property with the addresses of brokers, by its two names
SERVERS = frozenset({"bootstrap.servers", "metadata.broker.list"})
NO_SERVERS = "kafka: expected the property bootstrap.servers (host:port of a broker), got none"

#: properties of librdkafka without an equivalent in Spark's Java client -> what to use instead
UNTRANSLATED = {
    "enable.sasl.oauthbearer.unsecure.jwt": "a login by PLAIN or SCRAM",
    "enable.ssl.certificate.verification": "ssl.ca.location with the authority of the brokers' certificates",
    "sasl.kerberos.keytab": "a login by PLAIN or SCRAM",
    "sasl.kerberos.kinit.cmd": "a login by PLAIN or SCRAM",
    "sasl.kerberos.principal": "a login by PLAIN or SCRAM",
    "sasl.kerberos.service.name": "a login by PLAIN or SCRAM",
    "sasl.oauthbearer.client.id": "a login by PLAIN or SCRAM",
    "sasl.oauthbearer.client.secret": "a login by PLAIN or SCRAM",
    "sasl.oauthbearer.config": "a login by PLAIN or SCRAM",
    "sasl.oauthbearer.method": "a login by PLAIN or SCRAM",
    "sasl.oauthbearer.token.endpoint.url": "a login by PLAIN or SCRAM",
    "ssl.cipher.suites": "the brokers to choose",
    "ssl.crl.location": "certificates that end soon",
    "ssl.curves.list": "the brokers to choose",
    "ssl.keystore.location": "ssl.certificate.location and ssl.key.location with PEM files",
    "ssl.keystore.password": "ssl.key.password",
    "ssl.sigalgs.list": "the brokers to choose",
}

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LOGIN = ("sasl.mechanism", "sasl.username", "sasl.password")
ALGORITHMS = ("https", "none")
RECOVERIES = ("none", "rebootstrap")
#: kinds of PEM properties; each is given as the path of a file (`.location`) or as the text itself (`.pem`)
AUTHORITY, CERTIFICATE, KEY = "ssl.ca", "ssl.certificate", "ssl.key"
FORMS = ("location", "pem")
LABELS = {AUTHORITY: ("CERTIFICATE",), CERTIFICATE: ("CERTIFICATE",), KEY: ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY")}
#: labels of keys that OpenSSL may write, but Java cannot read
OLD_KEYS = ("RSA PRIVATE KEY", "EC PRIVATE KEY", "DSA PRIVATE KEY")
#: the DER encoding of 1.2.840.113549.1.5.13, the identifier of the encryption scheme PBES2 in an encrypted key
PBES2 = bytes.fromhex("06092a864886f70d01050d")


class ServersError(SluiceError):
    exit_code = 2


class Fault(NamedTuple):
    """An error in a property. `got` never contains a secret; None means that the property is missing."""

    name: str
    expected: str
    got: str | None = None
    hint: str | None = None


def servers(kafka: Mapping[str, str]) -> str:
    """The addresses of brokers, under either name of the property; empty if there are none.

    If both names are given, the later one counts, as for the clients (kafka/client.py).
    """
    return next((value for name, value in reversed([*kafka.items()]) if name in SERVERS), "")


def require_servers(kafka: Mapping[str, str], where: str) -> None:
    """Raises ServersError if the properties name no broker. A file may leave that to `--kafka`, so `faults` does not
    report it. `where` names the file or the pipeline.
    """
    if not servers(kafka):
        message = f"{where}: {NO_SERVERS}; give it in the file, or with --kafka bootstrap.servers=HOST:PORT"
        raise ServersError(message)


def faults(properties: Mapping[str, str], *, complete: bool = True) -> Iterator[Fault]:
    """All faults of the properties. If `complete` is False, values may be missing, and only names are checked."""
    for name in properties:
        yield from _name(name)
    if complete:
        one_name = {"sasl.mechanisms": "sasl.mechanism"}
        by_name = {one_name.get(name, name): value for name, value in properties.items()}
        yield from _values(by_name)
        yield from _login(by_name)
        yield from _certificates(by_name)


def pem(properties: Mapping[str, str], kind: str) -> str | None:
    """The PEM text of a kind; None if it is not given. Raises OSError or UnicodeDecodeError for an unreadable file."""
    file = properties.get(f"{kind}.location")
    return read_file(file).decode("ascii") if file is not None else properties.get(f"{kind}.pem")


def _name(name: str) -> Iterator[Fault]:
    if name in RESERVED:
        yield Fault(name, "only properties that the service does not set itself", name)
    elif name in UNTRANSLATED:
        yield Fault(name, f"{UNTRANSLATED[name]}, since Spark's Java client has nothing like it", name)
    elif name not in KNOWN:
        yield Fault(name, "a property of librdkafka that the service hands on", name, nearest(name, KNOWN))


def _values(properties: Mapping[str, str]) -> Iterator[Fault]:
    for name in sorted(NUMBERS & properties.keys()):
        if not properties[name].lstrip("-").isdecimal():
            yield Fault(name, "an integer", properties[name])
    for name, words in (
        ("security.protocol", PROTOCOLS),
        ("sasl.mechanism", MECHANISMS),
        ("ssl.endpoint.identification.algorithm", ALGORITHMS),
        ("metadata.recovery.strategy", RECOVERIES),
    ):
        if name in properties and properties[name].upper() not in map(str.upper, words):
            yield Fault(name, one_of(words), properties[name], nearest(properties[name], words))


def _protocol(properties: Mapping[str, str]) -> str:
    return properties.get("security.protocol", "PLAINTEXT").upper()


def _login(properties: Mapping[str, str]) -> Iterator[Fault]:
    protocol = _protocol(properties)
    if "SASL" in protocol:
        for name in LOGIN:
            if not properties.get(name):
                yield Fault(name, f"a value, since security.protocol is {protocol}")
    elif any(name in properties for name in LOGIN) and protocol in PROTOCOLS:
        yield _unused("sasl", "SASL_PLAINTEXT or SASL_SSL", properties)


def _certificates(properties: Mapping[str, str]) -> Iterator[Fault]:
    used = {kind for kind in LABELS if any(f"{kind}.{form}" in properties for form in FORMS)}
    if used and "SSL" not in _protocol(properties) and _protocol(properties) in PROTOCOLS:
        yield _unused("ssl", "SSL or SASL_SSL", properties)
    for kind in sorted(used):
        if all(f"{kind}.{form}" in properties for form in FORMS):
            yield Fault(f"{kind}.pem", f"either {kind}.location or {kind}.pem", "both")
        else:
            yield from _pem_faults(properties, kind)
    for kind, other in ((CERTIFICATE, KEY), (KEY, CERTIFICATE)):
        if kind in used and other not in used:
            yield Fault(f"{other}.location", f"a PEM file, since {kind} is given")


def _unused(family: str, protocols: str, properties: Mapping[str, str]) -> Fault:
    name = min(name for name in properties if name.startswith(f"{family}."))
    return Fault("security.protocol", f"{protocols}, since {name} is given", properties.get("security.protocol"))


def _pem_faults(properties: Mapping[str, str], kind: str) -> Iterator[Fault]:
    name = next(f"{kind}.{form}" for form in FORMS if f"{kind}.{form}" in properties)
    shown = properties[name] if name.endswith(".location") else "something else"
    try:
        text = pem(properties, kind) or ""
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no text"
        yield Fault(name, "a PEM file that can be read", f"{shown} ({why})")
        return
    if any(f"-----BEGIN {label}-----" in text for label in OLD_KEYS):
        yield Fault(
            name, "a PKCS#8 key (-----BEGIN PRIVATE KEY-----), as `openssl pkcs8 -topk8 -nocrypt` makes it", shown
        )
    elif not any(f"-----BEGIN {label}-----" in text for label in LABELS[kind]):
        yield Fault(name, f"PEM text (-----BEGIN {LABELS[kind][0]}-----)", shown)
    elif "-----BEGIN ENCRYPTED PRIVATE KEY-----" in text:
        if _encrypted_anew(text):
            expected = "a key without a password, or as `openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES` makes it, for Java"
            yield Fault(name, expected, shown)
        if not properties.get("ssl.key.password"):
            yield Fault("ssl.key.password", "the password of the key, which is encrypted")


def _encrypted_anew(text: str) -> bool:
    """Whether the key is encrypted by PBES2, OpenSSL's default, which Kafka's Java client cannot decrypt."""
    body = text.partition("-----BEGIN ENCRYPTED PRIVATE KEY-----")[2].partition("-----END")[0]
    with suppress(ValueError):
        return PBES2 in b64decode(body)[:64]
    return False

"""A real broker that authenticates its clients, in each way that the `kafka:` block can configure."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from sluice.kafka.embedded_broker import EmbeddedBroker

MECHANISMS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
USER = "sluice"
#: listener -> security protocol; MUTUAL requires a certificate of its clients
LISTENERS = {"SASL_PLAINTEXT": "SASL_PLAINTEXT", "SSL": "SSL", "SASL_SSL": "SASL_SSL", "MUTUAL": "SSL"}


@dataclass(frozen=True)
class Secured:
    """`plain` are the brokers for clients without security, `kinds` has the `kafka:` block of each kind."""

    plain: str
    kinds: dict[str, dict[str, str]]
    secrets: tuple[str, ...]


@contextmanager
def secured(folder: Path) -> Iterator[Secured]:
    """Passwords have characters that must be quoted; certificates are made here, for 127.0.0.1."""
    authority = trustme.CA()
    password = secrets.token_urlsafe(12) + "\"\\'; #{}"
    key_password = secrets.token_urlsafe(12)
    with EmbeddedBroker(_broker_properties(authority, password), listeners=LISTENERS) as broker:
        _create_users(broker.bootstrap, password)
        yield Secured(
            broker.bootstrap, _kinds(broker, authority, folder, password, key_password), (password, key_password)
        )


def _broker_properties(authority: trustme.CA, password: str) -> dict[str, str]:
    certificate = authority.issue_cert("127.0.0.1")
    chain = "".join(blob.bytes().decode() for blob in certificate.cert_chain_pems)
    login = "org.apache.kafka.common.security"
    properties = {
        "ssl.keystore.type": "PEM", "ssl.keystore.key": pkcs8(certificate.private_key_pem.bytes()),
        "ssl.keystore.certificate.chain": chain,
        "ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.cert_pem.bytes().decode(),
        "listener.name.mutual.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(["PLAIN", *MECHANISMS]),
    }  # fmt: skip
    for listener in ("sasl_plaintext", "sasl_ssl"):
        jaas = f"listener.name.{listener}"
        plain = f'{login}.plain.PlainLoginModule required user_{USER}="{_escaped(password)}";'
        properties[f"{jaas}.plain.sasl.jaas.config"] = plain
        for mechanism in MECHANISMS:
            properties[f"{jaas}.{mechanism.lower()}.sasl.jaas.config"] = f"{login}.scram.ScramLoginModule required;"
    return {name: _java_value(value) for name, value in properties.items()}


def _create_users(bootstrap: str, password: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in MECHANISMS.values():  # a user is changed once in a request
        change = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), password.encode())
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result()


def _kinds(
    broker: EmbeddedBroker, authority: trustme.CA, folder: Path, password: str, key_password: str
) -> dict[str, dict[str, str]]:
    ca = authority.cert_pem.bytes().decode()
    (folder / "ca.pem").write_text(ca)
    mine = authority.issue_cert("client")
    chain = "".join(blob.bytes().decode() for blob in mine.cert_chain_pems)
    (folder / "client.pem").write_text(chain)
    (folder / "client.key").write_text(pkcs8(mine.private_key_pem.bytes()))
    trust = {"ssl.ca.location": str(folder / "ca.pem")}
    login = {"sasl.username": USER, "sasl.password": password}

    def block(listener: str, **more: str) -> dict[str, str]:
        return {
            "bootstrap.servers": broker.bootstrap_of(listener),
            "security.protocol": LISTENERS[listener].lower(),
        } | more

    return {
        "PLAINTEXT": {"bootstrap.servers": broker.bootstrap},
        "SASL/PLAIN": block("SASL_PLAINTEXT", **login, **{"sasl.mechanism": "PLAIN"}),
        "SASL/SCRAM-SHA-256": block("SASL_PLAINTEXT", **login, **{"sasl.mechanism": "SCRAM-SHA-256"}),
        "SASL/SCRAM-SHA-512 over TLS": block("SASL_SSL", **login, **trust, **{"sasl.mechanism": "SCRAM-SHA-512"}),
        "TLS": block("SSL", **{"ssl.ca.pem": ca}),
        "mutual TLS by files": block(
            "MUTUAL", **trust,
            **{"ssl.certificate.location": str(folder / "client.pem"), "ssl.key.location": str(folder / "client.key")},
        ),
        "mutual TLS, the key encrypted": block(
            "MUTUAL", **trust,
            **{"ssl.certificate.pem": chain, "ssl.key.password": key_password,
               "ssl.key.pem": pkcs8(mine.private_key_pem.bytes(), key_password)},
        ),
    }  # fmt: skip


def pkcs8(key: bytes, password: str = "") -> str:
    """The key as Java reads it, encrypted if there is a password."""
    how = ["-v1", "PBE-SHA1-3DES", "-passout", f"pass:{password}"] if password else ["-nocrypt"]
    command = ["openssl", "pkcs8", "-topk8", *how]
    return subprocess.run(command, input=key, capture_output=True, check=True).stdout.decode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _java_value(text: str) -> str:
    """As a value in a properties file."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")

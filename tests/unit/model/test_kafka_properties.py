"""The `kafka:` block: what goes together, found out by `check`."""

from __future__ import annotations

from base64 import b64encode

import pytest

from sluice.model.errors import PipelineError
from sluice.model.kafka_properties import KNOWN, NUMBERS, PBES2, RESERVED, TEXTS, UNTRANSLATED
from tests.unit.config.pipeline_files import aggregate, loaded

CERTIFICATE, KEY = "-----BEGIN CERTIFICATE-----", "-----BEGIN PRIVATE KEY-----"
LOGIN = {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "geheim"}
MUTUAL = {"security.protocol": "SSL", "ssl.ca.pem": CERTIFICATE, "ssl.certificate.pem": CERTIFICATE, "ssl.key.pem": KEY}


def problems(kafka: dict[str, str]) -> list[str]:
    """What is wrong with the block, without the place."""
    block = "kafka:\n" + "".join(f"  {name}: '{value}'\n" for name, value in kafka.items())
    try:
        loaded(aggregate(more=block))
    except PipelineError as error:
        return [f"{problem.path}: expected {problem.expected}, got {problem.got}" for problem in error.problems]
    return []


@pytest.mark.parametrize(
    "kafka",
    [
        {"security.protocol": "plaintext"},
        LOGIN,
        LOGIN | {"sasl.mechanism": "scram-sha-512", "security.protocol": "SASL_PLAINTEXT"},
        MUTUAL,
        MUTUAL | {"ssl.endpoint.identification.algorithm": "none", "socket.timeout.ms": "1000"},
        LOGIN | {"ssl.ca.pem": CERTIFICATE},
    ],
)
def test_what_is_right(kafka):
    assert problems(kafka) == []


def without(kafka: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in kafka.items() if key != name}


@pytest.mark.parametrize(
    ("kafka", "problem"),
    [
        ({"security.protocol": "tls"},
         'kafka["security.protocol"]: expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, got tls'),
        (LOGIN | {"sasl.mechanism": "GSSAPI"},
         'kafka["sasl.mechanism"]: expected PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, got GSSAPI'),
        (without(LOGIN, "sasl.username"),
         'kafka["sasl.username"]: expected a value, since security.protocol is SASL_SSL, got None'),
        (without(LOGIN, "sasl.mechanism"),
         'kafka["sasl.mechanism"]: expected a value, since security.protocol is SASL_SSL, got None'),
        (without(LOGIN, "security.protocol"),
         'kafka["security.protocol"]: expected SASL_PLAINTEXT or SASL_SSL, since sasl.mechanism is given, got None'),
        (without(MUTUAL, "security.protocol"),
         'kafka["security.protocol"]: expected SSL or SASL_SSL, since ssl.ca.pem is given, got None'),
        (without(MUTUAL, "ssl.key.pem"),
         'kafka["ssl.key.location"]: expected a PEM file, since ssl.certificate is given, got None'),
        (without(MUTUAL, "ssl.certificate.pem"),
         'kafka["ssl.certificate.location"]: expected a PEM file, since ssl.key is given, got None'),
        (MUTUAL | {"ssl.ca.location": "x"},
         'kafka["ssl.ca.pem"]: expected either ssl.ca.location or ssl.ca.pem, got both'),
        (MUTUAL | {"ssl.key.pem": "geheim"},
         'kafka["ssl.key.pem"]: expected PEM text (-----BEGIN PRIVATE KEY-----), got something else'),
        (MUTUAL | {"ssl.key.pem": "-----BEGIN RSA PRIVATE KEY-----"},
         ('kafka["ssl.key.pem"]: expected a PKCS#8 key (-----BEGIN PRIVATE KEY-----), as '
          "`openssl pkcs8 -topk8 -nocrypt` makes it, got something else")),
        (MUTUAL | {"ssl.key.pem": "-----BEGIN ENCRYPTED PRIVATE KEY-----"},
         'kafka["ssl.key.password"]: expected the password of the key, which is encrypted, got None'),
        (without(MUTUAL, "ssl.ca.pem") | {"ssl.ca.location": "/nowhere"},
         'kafka["ssl.ca.location"]: expected a PEM file that can be read, got /nowhere (No such file or directory)'),
        ({"socket.timeout.ms": "a second"}, 'kafka["socket.timeout.ms"]: expected an integer, got a second'),
        ({"ssl.endpoint.identification.algorithm": "off"},
         'kafka["ssl.endpoint.identification.algorithm"]: expected https or none, got off'),
        ({"ssl.cipher.suites": "x"},
         ('kafka["ssl.cipher.suites"]: expected the brokers to choose, since Spark\'s Java client has nothing like it, '
          "got ssl.cipher.suites")),
        ({"group.id": "x"},
         'kafka["group.id"]: expected only properties that the service does not set itself, got group.id'),
    ],
)  # fmt: skip
def test_what_is_wrong(kafka, problem):
    assert problems(kafka) == [problem]


@pytest.mark.parametrize("name", sorted(UNTRANSLATED))
def test_what_the_java_client_lacks_is_named(name):
    (problem,) = problems({name: "geheim"})
    assert problem.startswith(f'kafka["{name}"]: expected ')
    assert "geheim" not in problem


def test_a_secret_that_is_missing_is_the_only_problem():
    found = problems(LOGIN | {"sasl.password": "${NOT_THERE}"})
    assert found == ['kafka["sasl.password"]: expected the environment variable NOT_THERE, got ${NOT_THERE}']


def test_a_key_encrypted_as_openssl_does_it_today_is_refused_since_java_cannot_read_it():
    """The beginning of one: a sequence with the name of PBES2 in it."""
    body = b64encode(bytes.fromhex("308205") + PBES2).decode()
    key = f"-----BEGIN ENCRYPTED PRIVATE KEY-----{body}-----END ENCRYPTED PRIVATE KEY-----"
    (problem,) = problems(MUTUAL | {"ssl.key.pem": key, "ssl.key.password": "geheim"})
    assert "as `openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES` makes it" in problem


def test_no_property_is_in_two_tables():
    tables = [NUMBERS, TEXTS, RESERVED, frozenset(UNTRANSLATED)]
    assert sum(map(len, tables)) == len(frozenset().union(*tables))
    assert KNOWN == NUMBERS | TEXTS

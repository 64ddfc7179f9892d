"""The `kafka:` block for our own clients and for Spark's."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from sluice.kafka.client import COMMON, CONSUMER, PRODUCER, client_properties, java_properties
from sluice.kafka.kafka_errors import PropertyError

HERE = {"bootstrap.servers": "localhost:9092"}
CA, CERTIFICATE, KEY = (f"-----BEGIN {label}-----\n{text}\n" for label, text in (
    ("CERTIFICATE", "ca"), ("CERTIFICATE", "mine"), ("PRIVATE KEY", "key")))  # fmt: skip


@pytest.fixture
def pem(tmp_path):
    """A file with this text."""

    def write(name, text):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_plain_properties_are_translated_by_name():
    given = HERE | {"client.id": "me", "socket.timeout.ms": "5000", "fetch.wait.max.ms": "100", "linger.ms": "5"}
    assert java_properties(given) == HERE | {
        "client.id": "me",
        "request.timeout.ms": "5000",
        "fetch.max.wait.ms": "100",
    }


def test_other_names_of_a_property_are_known():
    given = {"metadata.broker.list": "localhost:9092", "fetch.message.max.bytes": "9"}
    assert java_properties(given) == HERE | {"max.partition.fetch.bytes": "9"}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("scram-sha-256", "scram.ScramLoginModule"),
        ("SCRAM-SHA-512", "scram.ScramLoginModule"),
    ],
)
def test_a_login_becomes_a_line_of_jaas(mechanism, module):
    login = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": mechanism,
        "sasl.username": 'a"b',
        "sasl.password": "c\\d",
    }
    assert java_properties(HERE | login) == HERE | {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism.upper(),
        "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
        r'username="a\"b" password="c\\d";',
    }


def test_pem_files_become_pem_stores(pem):
    files = {
        "security.protocol": "ssl",
        "ssl.ca.location": pem("ca", CA),
        "ssl.certificate.location": pem("certificate", CERTIFICATE),
        "ssl.key.location": pem("key", KEY),
        "ssl.key.password": "hunter2",
    }
    assert java_properties(HERE | files) == HERE | {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CA,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": CERTIFICATE,
        "ssl.keystore.key": KEY,
        "ssl.key.password": "hunter2",
    }


def test_pem_texts_become_pem_stores():
    texts = {"security.protocol": "ssl", "ssl.ca.pem": CA, "ssl.certificate.pem": CERTIFICATE, "ssl.key.pem": KEY}
    found = java_properties(HERE | texts)
    assert (found["ssl.truststore.certificates"], found["ssl.keystore.key"]) == (CA, KEY)


def test_hostnames_are_not_checked_on_request():
    assert java_properties(HERE | {"ssl.endpoint.identification.algorithm": "none"}) == HERE | {
        "ssl.endpoint.identification.algorithm": ""
    }


def test_a_buffer_of_the_systems_own_size_has_another_number_in_java():
    assert java_properties(HERE | {"socket.receive.buffer.bytes": "0"}) == HERE | {"receive.buffer.bytes": "-1"}


def test_librdkafka_takes_mechanisms_in_capitals_only():
    login = {"security.protocol": "sasl_ssl", "sasl.mechanism": "plain", "sasl.username": "u", "sasl.password": "p"}
    assert client_properties(HERE | login, "admin")["sasl.mechanism"] == "PLAIN"


def test_each_client_gets_the_properties_of_its_role():
    given = HERE | {"client.id": "me", "linger.ms": "5", "fetch.min.bytes": "1"}
    names = {role: {*client_properties(given, role)} - {"logger"} for role in ("admin", "consumer", "producer")}
    assert names["admin"] == {"bootstrap.servers", "client.id", "metadata.recovery.strategy", "socket.timeout.ms"}
    assert names["consumer"] == names["admin"] | {"fetch.min.bytes"}
    assert names["producer"] == names["admin"] | {"linger.ms"}


@pytest.mark.parametrize("role", ["admin", "consumer", "producer"])
def test_our_clients_do_not_bootstrap_again_unless_the_file_says_so(role):
    name = "metadata.recovery.strategy"
    assert client_properties(HERE, role)[name] == "none"
    assert client_properties(HERE | {name: "rebootstrap"}, role)[name] == "rebootstrap"
    assert name not in java_properties(HERE)
    assert java_properties(HERE | {name: "rebootstrap"})[name] == "rebootstrap"


@pytest.mark.parametrize(
    ("given", "milliseconds"),
    [
        ({}, 15_000),
        ({"socket.timeout.ms": "40000"}, "40000"),
        ({"transaction.timeout.ms": "9000"}, 9000),  # the client accepts no longer one beside it
        ({"fetch.wait.max.ms": "30000"}, 31_000),  # nor a shorter one
    ],
)
def test_a_half_open_connection_is_noticed_in_a_quarter_of_a_minute(given, milliseconds):
    for role in ("consumer", "producer"):
        properties = client_properties(HERE | given, role)
        if {*given} <= {*properties}:
            assert properties["socket.timeout.ms"] == milliseconds
    assert "request.timeout.ms" not in java_properties(HERE)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (HERE | {"metadata.recovery.strategy": "all"}, r"strategy: expected none or rebootstrap, got 'all'"),
        ({"bootstrap.server": "x"}, r"kafka\.bootstrap\.server: .* \(did you mean bootstrap\.servers\?\)"),
        (HERE | {"transactional.id": "t"}, r"kafka\.transactional\.id: .* the service does not set itself"),
        ({"client.id": "me"}, r"kafka: expected the property bootstrap\.servers .* got none"),
        (HERE | {"security.protocol": "sasl_ssl"}, r"kafka\.sasl\.mechanism: expected a value, .* got nothing"),
        (HERE | {"security.protocol": "ssl", "ssl.ca.location": "/nowhere"}, r"kafka\.ssl\.ca\.location: .*'/nowhere"),
    ],
)
def test_a_property_that_cannot_be_used_is_an_error_that_helps(given, message):
    with pytest.raises(PropertyError, match=message):
        java_properties(given)


#: a value for those that don't take the number 2000
VALUES = {
    "bootstrap.servers": "localhost:1",
    "broker.address.family": "v4",
    "check.crcs": "true",
    "client.dns.lookup": "use_all_dns_ips",
    "compression.level": "5",
    "compression.type": "lz4",
    "debug": "conf",
    "fetch.max.bytes": "2000000",
    "log_level": "0",
    "security.protocol": "plaintext",
    "socket.keepalive.enable": "true",
    "metadata.recovery.strategy": "rebootstrap",
    "ssl.endpoint.identification.algorithm": "https",
}
#: those that go together, which test_security.py tries
TOGETHER = {name for name in COMMON if name.startswith(("ssl.", "sasl.")) and "algorithm" not in name}


@pytest.mark.parametrize("name", sorted({*COMMON, *CONSUMER, *PRODUCER} - TOGETHER))
def test_librdkafka_knows_every_property_of_the_table(name):
    """A client is made with it; none connects to anything."""
    kafka = {"bootstrap.servers": "", name: VALUES.get(name, "2000")}
    AdminClient(client_properties(kafka, "admin"))
    Producer(client_properties(kafka, "producer"))
    Consumer(client_properties(kafka, "consumer") | {"group.id": "g"}).close()

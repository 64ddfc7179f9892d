import pytest

from sluice.kafka import client
from sluice.model.errors import PipelineError
from sluice.model.kafka_properties import KNOWN
from sluice.model.spec import Properties
from tests.unit.config.pipeline_files import aggregate, loaded

SETTINGS = [
    ("clock: records", "clock", "records"),
    ("clock_origin: 0", "clock_origin", 0),
    ("clock_origin: -1.5", "clock_origin", -1_500_000_000),
    ("clock_origin: 2013-01-01T00:00:00Z", "clock_origin", 1_356_998_400_000_000_000),
    ("clock_origin: 2013-01-01", "clock_origin", 1_356_998_400_000_000_000),
    ("clock_origin: 2013-01-01T01:00:00.25+01:00", "clock_origin", 1_356_998_400_250_000_000),
    ("clock_origin: 1970-01-01", "clock_origin", 0),
    ("max_future: 0.1", "max_future", 100_000_000),
    ("trigger_interval: 5", "trigger_interval", 5_000_000_000),
    ("latency: cheap", "latency", "cheap"),
    ("latency: 50ms", "latency", 50_000_000),
    ("latency: 0.2", "latency", 200_000_000),
    ("trigger_interval: 5", "latency", "balanced"),
    ("max_records_per_batch: 2000", "max_records_per_batch", 2000),
    ("max_bytes_per_batch: 1000000", "max_bytes_per_batch", 1_000_000),
    ("buckets: 16", "buckets", 16),
    ("checkpoint: /data/one", "checkpoint", "/data/one"),
    ("delivery: at_least_once", "delivery", "at_least_once"),
    ("start: latest", "start", "latest"),
]


@pytest.mark.parametrize(("line", "name", "value"), SETTINGS)
def test_setting(line, name, value):
    assert getattr(loaded(aggregate(more=line)).settings, name) == value


LOGIN = "security.protocol: sasl_ssl, sasl.mechanism: PLAIN, sasl.username: me"


def kafka(value, **how):
    return loaded(aggregate(more=f"kafka: {{{LOGIN}, sasl.password: {value}}}"), **how).settings.kafka["sasl.password"]


def test_properties_are_texts_as_librdkafka_takes_them():
    text = aggregate(more="kafka: {socket.keepalive.enable: true, socket.timeout.ms: 500, client.id: on}")
    expected = {"socket.keepalive.enable": "true", "socket.timeout.ms": "500", "client.id": "on"}
    assert loaded(text).settings.kafka == expected


def test_a_secret_comes_from_the_environment():
    assert kafka('"${PASSWORD}"', environment={"PASSWORD": "geheim"}) == "geheim"


def test_a_secret_may_be_part_of_a_value():
    assert kafka('"user:${PASSWORD}!"', environment={"PASSWORD": "a${b}"}) == "user:a${b}!"


def test_a_secret_comes_from_a_file_without_its_last_line_end(tmp_path):
    (tmp_path / "secret").write_text("geheim\n")
    assert kafka(f'"${{file:{tmp_path}/secret}}"') == "geheim"


def test_a_doubled_dollar_stands_for_itself():
    assert kafka('"$${PASSWORD} $"', environment={}) == "${PASSWORD} $"


def test_without_environment_values_stay_as_they_are():
    """For `replay`, which needs no Kafka."""
    assert kafka('"${PASSWORD}"', environment=None) == "${PASSWORD}"


def test_secrets_are_masked_wherever_they_are_shown():
    settings = loaded(aggregate(more=f"kafka: {{{LOGIN}, sasl.password: geheim}}")).settings
    assert settings.kafka["sasl.password"] == "geheim"
    assert "geheim" not in f"{settings} {settings!r} {settings.kafka} {settings.kafka!r}"
    assert "me" in repr(settings)


@pytest.mark.parametrize(
    "name",
    ["sasl.password", "ssl.key.pem", "ssl.key.password", "ssl.keystore.password", "sasl.oauthbearer.client.secret",
     "sasl.oauthbearer.config", "sasl.jaas.config", "basic.auth.user.info"],
)  # fmt: skip
def test_secret(name):
    assert Properties({name: "geheim"}).masked() == {name: "***"}


@pytest.mark.parametrize("name", ["bootstrap.servers", "sasl.username", "ssl.key.location", "security.protocol"])
def test_no_secret(name):
    assert Properties({name: "shown"}).masked() == {name: "shown"}


def test_check_takes_the_properties_that_the_clients_take():
    known = {*client.COMMON, *client.CONSUMER, *client.PRODUCER}
    assert {*KNOWN} == known | {alias for alias, name in client.ALIASES.items() if name in known}


def test_a_wrong_property_does_not_show_its_value():
    with pytest.raises(PipelineError) as raised:
        loaded(aggregate(more="kafka: {sasl.password: [geheim]}"))
    assert "geheim" not in str(raised.value)

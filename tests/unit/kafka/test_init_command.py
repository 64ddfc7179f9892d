"""`sluice init` with topics of a real broker: the file that it writes is checked and replayed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from sluice.cli import main
from sluice.config.load import load
from tests.registry.servers import small
from tests.unit.draft.test_schema_sample import record

pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sluice(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def init(kafka, topic, *arguments) -> Result:
    return sluice("init", "--topic", topic, *(f"--kafka={name}={value}" for name, value in kafka.items()), *arguments)


def produce(kafka, topic, *records) -> None:
    """Writes records: topic partition, value, key, headers."""
    producer = Producer(kafka)
    for number, (partition, value, key, headers) in enumerate(records):
        producer.produce(topic, value, key, partition, timestamp=1000 * (number + 1), headers=headers)
    assert producer.flush(10) == 0


def sales(*shops_and_amounts):
    """A record for each sale, in the topic partition of its shop."""
    for shop, amount in shops_and_amounts:
        value = json.dumps({"shop": shop, "amount": amount}).encode()
        yield ("north", "south").index(shop), value, shop.encode(), None


def replayed(topic) -> list[dict]:
    """What a replay of the records of the topic writes, with the file that `init` wrote."""
    assert sluice("check", f"{topic}.yaml").exit_code == 0
    recorded = sluice("record", topic, "--pipeline", f"{topic}.yaml")
    assert recorded.exit_code == 0
    Path(f"{topic}.jsonl").write_text(recorded.stdout)
    done = sluice("replay", f"{topic}.yaml", f"{topic}.jsonl", "--clock-origin", "first", "--quiet")
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_topic_with_keys_and_broken_records_in_two_topic_partitions(kafka, topic):
    produce(
        kafka, topic, *sales(("north", 1), ("south", 5), ("north", 2.5), ("south", 7)),
        (0, b"broken", b"north", None), (1, None, b"south", None), (0, b"", None, [("sluice-mark", b"window")]),
    )  # fmt: skip
    result = init(kafka, topic)
    assert (result.exit_code, result.stdout.splitlines()) == (0, [
        "6 records: json, rows and tombstones",
        "attribute  path    type     in     example",
        'shop       shop    string   100 %  "north"',
        "amount     amount  float64  100 %  1",
        "the file over these records: 4 results, 1 dead letter",
        '  {"shop":"north","tuples":1,"average_amount":1.0}',
        '  {"shop":"south","tuples":1,"average_amount":5.0}',
        '  {"shop":"north","tuples":2,"average_amount":1.75}',
        '  {"shop":"south","tuples":2,"average_amount":6.0}',
        "  the first dead letter: not JSON: unexpected character, expected a JSON value: line 1 column 1 (char 0)",
        f"wrote {topic}.yaml. Next:",
        f"  sluice explain {topic}.yaml",
        f"  sluice record {topic} --pipeline {topic}.yaml > {topic}.jsonl",
        f"  sluice replay {topic}.yaml {topic}.jsonl --clock-origin first",
        f"  sluice run {topic}.yaml",
    ])  # fmt: skip
    text = Path(f"{topic}.yaml").read_text()
    assert "drafted from 6 records" in text
    assert "# 1 of the 6 records are no JSON objects" in text
    assert "# 1 of the 6 records have no value (tombstones)." in text
    records = replayed(topic)
    assert [record["tuple"] for record in records if "tuple" in record] == [
        {"shop": "north", "tuples": 1, "average_amount": 1.0},
        {"shop": "south", "tuples": 1, "average_amount": 5.0},
        {"shop": "north", "tuples": 2, "average_amount": 1.75},
        {"shop": "south", "tuples": 2, "average_amount": 6.0},
    ]
    reasons = [record["dead_letter"]["reason"] for record in records if "dead_letter" in record]
    assert [reason.partition(":")[0] for reason in reasons] == ["not JSON"], "a tombstone makes no tuple"


def test_a_compacted_topic_is_suggested_as_a_table(kafka, create_topic, name):
    create_topic(name, 2, **{"cleanup.policy": "compact,delete"})
    rows = [(0, json.dumps({"shop": shop, "city": "x"}).encode(), shop.encode(), None) for shop in ("a", "b", "c")]
    produce(kafka, name, *rows, (1, None, b"a", None))
    assert init(kafka, name).exit_code == 0
    text = Path(f"{name}.yaml").read_text()
    assert "# 1 of the 4 records have no value (tombstones)." in text
    assert "# Kafka compacts the topic: of each key it keeps the newest record (cleanup.policy)." in text
    assert "    envelope: upsert " in text
    assert "    key: {attributes: [shop]}\n" in text
    assert "    # table: true " in text


def test_a_topic_that_is_not_compacted_is_not_suggested_as_a_table(kafka, topic):
    produce(kafka, topic, *sales(("north", 1)))
    assert init(kafka, topic).exit_code == 0
    assert "table" not in Path(f"{topic}.yaml").read_text()


def test_only_the_last_records_of_each_topic_partition_are_read(kafka, topic):
    old = [(partition, b'{"old": 1}', None, None) for partition in (0, 1)]
    produce(kafka, topic, *old, *sales(("north", 1), ("south", 5)))
    assert init(kafka, topic, "--last", "1").exit_code == 0
    assert [name for name, _ in load(f"{topic}.yaml").streams[topic.replace("-", "_")].schema] == ["shop", "amount"]


def test_records_with_a_schema_of_a_registry(kafka, topic):
    """The record without an amount counts as a tuple, and not in the average."""
    fields = {"shop": "string", "amount": ["null", "double"]}
    with small() as server:
        sold = [("a", 1.5), ("a", None), ("b", 2.5), ("b", 3.5)]
        values = [record(server, fields, shop=shop, amount=amount).value for shop, amount in sold]
        produce(kafka, topic, *((0, value, None, None) for value in values), (0, b"\0\0\0\0\x63bad", None, None))
        assert init(kafka, topic, "--registry", f"url={server.url}").exit_code == 0
        records = replayed(topic)
    assert [tuple(record["tuple"].values()) for record in records if "tuple" in record] == [
        ("a", 1, 1.5), ("a", 2, 1.5), ("b", 1, 2.5), ("b", 2, 3.0),
    ]  # fmt: skip
    (reason,) = [record["dead_letter"]["reason"] for record in records if "dead_letter" in record]
    assert reason.startswith("unknown schema")


def test_the_file_may_go_to_standard_output(kafka, topic, folder):
    produce(kafka, topic, *sales(("north", 1)))
    result = init(kafka, topic, "-")
    assert result.stdout.startswith(f"# A first pipeline for topic {topic}, drafted from 1 record.")
    assert list(folder.iterdir()) == []


def test_a_file_that_exists_is_not_overwritten(kafka, topic, folder):
    (folder / "own.yaml").write_text("mine")
    result = init(kafka, topic, "own.yaml")
    assert result.exit_code == 2
    assert "own.yaml exists; name another FILE, or `-` for standard output" in result.output
    assert (folder / "own.yaml").read_text() == "mine"


def test_a_folder_that_does_not_exist(kafka, topic):
    produce(kafka, topic, *sales(("north", 1)))
    result = init(kafka, topic, "none/own.yaml")
    assert (result.exit_code, result.stderr) == (
        1, "sluice: cannot write none/own.yaml (No such file or directory)\n",
    )  # fmt: skip


def test_a_topic_without_records(kafka, topic, folder):
    result = init(kafka, topic)
    message = f"sluice: the topic {topic} has no records; `sluice init` needs some to find their attributes\n"
    assert (result.exit_code, result.output) == (1, message)
    assert list(folder.iterdir()) == []


def test_a_topic_that_does_not_exist_is_not_created(kafka, name):
    for _ in range(2):
        result = init(kafka, f"no-{name}")
        assert (result.exit_code, result.output) == (3, f"sluice: no such topic: no-{name}\n")
    assert f"no-{name}" not in AdminClient(kafka).list_topics(timeout=10).topics


def test_a_call_without_brokers():
    result = sluice("init", "--topic", "trades")
    assert result.exit_code == 2
    assert "it needs --kafka bootstrap.servers=HOST:PORT" in result.output


def test_a_registry_without_its_address():
    result = sluice("init", "--topic", "trades", "--kafka=bootstrap.servers=x:1", "--registry=timeout=1")
    assert result.exit_code == 2
    assert "it needs --registry url=http://HOST:PORT" in result.output

"""`sluice-demo play`."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from sluice_demo.__main__ import main
from tests.unit.kafka.broker_tools import visible


def play(*arguments: str):
    return CliRunner().invoke(main, ["play", *arguments])


@pytest.mark.kafka
def test_a_day_goes_into_the_topic_which_is_created(broker):
    done = play(f"--kafka=bootstrap.servers={broker}", "--topic=play-day", "--partitions=3", "--days=1", "--all")
    assert (done.exit_code, done.output) == (0, "played 1 day: 837 departures and 3 marks into play-day\n")
    found = [len(visible({"bootstrap.servers": broker}, "play-day", number)) for number in range(3)]
    assert sum(found) == 840


@pytest.mark.kafka
def test_a_topic_that_is_there_keeps_its_topic_partitions(broker):
    for partitions in (2, 7):
        kafka, topic = f"--kafka=bootstrap.servers={broker}", "--topic=play-2"
        assert play(kafka, topic, f"--partitions={partitions}", "--days=1", "--all").exit_code == 0
    assert len(AdminClient({"bootstrap.servers": broker}).list_topics("play-2", 10).topics["play-2"].partitions) == 2


def test_without_brokers():
    done = play()
    assert done.exit_code == 2
    assert "bootstrap.servers" in done.output


def test_a_property_may_come_from_the_environment(monkeypatch):
    monkeypatch.delenv("NOBODY", raising=False)
    done = play("--kafka=bootstrap.servers=${NOBODY}")
    assert done.exit_code == 2
    assert "the environment variable NOBODY" in done.output

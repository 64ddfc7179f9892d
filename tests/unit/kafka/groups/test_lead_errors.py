"""What a membership in the group of the lead does at errors that are not Kafka's."""

from __future__ import annotations

import logging
import threading

import pytest
from confluent_kafka import TopicPartition

from sluice.kafka import consumer_groups as lead_module
from sluice.kafka import ledger
from sluice.kafka.consumer_groups import Lead

NOWHERE = {"bootstrap.servers": "nowhere:1"}
#: seconds in which a thread of the test does what it must
SOON = 30.0


class Member:
    """A consumer that gets the topic partition of the ledger. `fails` sets when the next call of `poll` raises."""

    def __init__(self) -> None:
        self.fails = threading.Event()
        self._assign = None

    def subscribe(self, topics, on_assign, **_):
        assert topics == [ledger.TOPIC]
        self._assign = on_assign

    def poll(self, seconds):
        assign, self._assign = self._assign, None
        if assign is not None:
            assign(self, [TopicPartition(ledger.TOPIC, ledger.PARTITION)])
        elif self.fails.wait(seconds):
            raise RuntimeError("lost")

    def incremental_assign(self, topic_partitions):
        pass

    def pause(self, topic_partitions):
        pass


@pytest.fixture
def clients(monkeypatch):
    """What the attempts to make a client give, in order: a Member, or an error that is raised."""
    found = []

    def consumer(_):
        one = found.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    monkeypatch.setattr(lead_module, "Consumer", consumer)
    monkeypatch.setattr(lead_module, "PAUSE_S", 0.0)
    return found


def test_after_any_error_an_instance_still_waits_for_the_lead(clients, caplog):
    clients += [RuntimeError("no thread can be started"), Member()]
    with Lead(NOWHERE, "q") as lead:
        assert lead.wait(SOON)
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == ["the membership in the group of the lead has failed: no thread can be started"]


def test_a_leader_whose_client_fails_knows_that_it_has_lost_the_lead(clients):
    member, lost = Member(), threading.Event()
    clients.append(member)
    with Lead(NOWHERE, "q", lost.set) as lead:
        assert lead.wait(SOON)
        assert not lead.lost
        member.fails.set()
        assert lost.wait(SOON)
        assert lead.lost

"""The lead with a real broker: one instance has it, and another one gets it when the first has gone."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import NewTopic

from sluice.kafka import consumer_groups as lead_module
from sluice.kafka import ledger
from sluice.kafka.consumer_groups import Lead, LeadError
from sluice.kafka.topics import create
from tests.chaos.brokers import Brokers
from tests.chaos.kafka_frames import Api, Effect, FrameFault

pytestmark = pytest.mark.kafka
#: seconds in which a member that may get the lead has it
SOON = 30.0
#: seconds in which one that must not get it would have it
WHILE = 1.0
#: an instance in a process of its own, which writes a line when it has the lead and one when it has lost it
INSTANCE = """
import sys
from sluice.kafka.consumer_groups import Lead
with Lead({"bootstrap.servers": sys.argv[1]}, sys.argv[2], lambda: print("lost", flush=True)) as lead:
    while not lead.wait(1.0):
        pass
    print("granted", flush=True)
    sys.stdin.read()
"""


@contextmanager
def instance(broker, name):
    command = [sys.executable, "-c", INSTANCE, broker, name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_first_of_two_instances_has_the_lead_and_keeps_it(kafka, topic):
    with Lead(kafka, topic) as first:
        assert first.wait(SOON)
        with Lead(kafka, topic) as second:
            assert not second.wait(WHILE)
            assert not first.lost
        assert not first.lost


def test_the_second_instance_gets_the_lead_when_the_first_leaves(kafka, topic):
    with Lead(kafka, topic) as first:
        assert first.wait(SOON)
        with Lead(kafka, topic) as second:
            assert not second.wait(WHILE)
            first.leave()
            assert second.wait(SOON)
    assert not first.lost, "it was given up, not lost"


def test_the_lead_of_one_pipeline_says_nothing_about_another(kafka, topic):
    with Lead(kafka, topic) as one, Lead(kafka, f"{topic}-other") as other:
        assert one.wait(SOON)
        assert other.wait(SOON)


def test_a_ledger_with_several_topic_partitions_has_one_leader(create_topic, kafka, name, monkeypatch):
    """Somebody may have created the topic with the broker's default number of topic partitions."""
    create_topic(name, 3)
    monkeypatch.setattr(lead_module.ledger, "TOPIC", name)
    with Lead(kafka, name) as first:
        assert first.wait(SOON)
        with Lead(kafka, name) as second, Lead(kafka, name) as third:
            leader = only_leader(first, second, third)
            leader.leave()
            only_leader(*{first, second, third} - {leader})


def only_leader(*leads):
    """The one that has the lead, for a while. A new member may take topic partition 0 from the leader, which then knows
    that it has lost the lead.
    """
    deadline, since = time.monotonic() + SOON, time.monotonic()
    while time.monotonic() - since < WHILE:
        found = [one for one in leads if one.wait(0) and not one.lost]
        assert len(found) < 2
        if not found:
            since = time.monotonic()
            assert since < deadline
        time.sleep(0.05)
    return found[0]


def test_a_killed_leader_is_followed_after_the_session_time_out(broker, kafka, topic):
    with instance(broker, topic) as first:
        assert first.stdout.readline() == "granted\n"
        with Lead(kafka, topic) as second:
            assert not second.wait(WHILE)
            first.kill()
            began = time.monotonic()
            assert second.wait(SOON)
            assert time.monotonic() - began > lead_module.SESSION_S / 2, "a short silence is no reason"


@pytest.mark.slow
@pytest.mark.parametrize("effect", [Effect.LOSE, Effect.HALF])
def test_a_lost_answer_to_the_request_to_join_delays_a_take_over_by_its_bound(effect, name):
    """Among three brokers, to which only the standby has a way on which the answer is lost."""
    with Brokers() as brokers, instance(brokers.direct["bootstrap.servers"], name) as first:
        create(brokers.direct, NewTopic(ledger.TOPIC, 1, 3))
        assert first.stdout.readline() == "granted\n"
        with Lead(brokers.through, name) as second:
            assert not second.wait(5 * WHILE)
            armed = [FrameFault(Api.JOIN_GROUP, effect) for _ in brokers.nodes]
            for node, fault in zip(brokers.nodes, armed, strict=True):
                node.frames.arm(fault)
            first.kill()
            began = time.monotonic()
            assert second.wait(2 * SOON)
            took = time.monotonic() - began
    assert any(fault.happened.is_set() for fault in armed)
    assert took < 2 * lead_module.SESSION_S + lead_module.MAX_POLL_S + 3 + WHILE


def test_a_leader_that_stood_still_knows_that_it_has_lost_the_lead(broker, kafka, topic):
    with instance(broker, topic) as first:
        assert first.stdout.readline() == "granted\n"
        with Lead(kafka, topic) as second:
            first.send_signal(signal.SIGSTOP)
            assert second.wait(SOON)
            first.send_signal(signal.SIGCONT)
            assert first.stdout.readline() == "lost\n"
            assert not second.lost, "the old leader does not get the lead back"


def test_a_time_out_that_brokers_refuse_is_an_error(kafka, topic, monkeypatch):
    monkeypatch.setattr(lead_module, "SESSION_S", 1.0)
    with Lead(kafka, topic) as lead, pytest.raises(LeadError, match=r"sluice\.lead\..*SLUICE_LEAD_SECONDS"):
        lead.wait(SOON)

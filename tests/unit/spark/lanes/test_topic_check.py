"""Whether the input topics are still those that the query reads, with answers and a clock of the test's own."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from sluice.batch.query_plan import Plan
from sluice.config.load import load_text
from sluice.kafka.kafka_errors import DataLossError, TopicCreatedAgainError, TopicDeletedError, UnavailableError
from sluice.spark.lanes import topic_check
from sluice.spark.lanes.topic_check import LOOK_S, MISSING_S, PERIOD_S, UNREACHABLE_S, TopicCheck

FILE = """
pipeline: p
kafka: {bootstrap.servers: "a:1"}
streams:
  in: {topic: in, schema: {k: string}}
  out: {topic: out}
operators:
  - {name: copy, map: in, output: [out]}
"""
CONTINUE = "on_data_loss: continue\n"
GONE, NO_ANSWER = KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.NETWORK_EXCEPTION


class World:
    """Brokers that give the id `topic_id`, or an error, and a clock. `asked` has the time of each request."""

    def __init__(self, monkeypatch, more=""):
        self.now, self.topic_id, self.asked, self.answering = 0.0, "first", [], True
        monkeypatch.setattr(topic_check, "time", SimpleNamespace(sleep=self.passes))  # other threads keep their time
        monkeypatch.setattr(topic_check, "send_request", lambda *request: request[-1](self))
        plan = Plan(load_text(FILE + more, "p.yaml"), "q", "", "/nowhere", 1, {"in": 1}, topic_ids=(("in", "first"),))
        self.check = TopicCheck(plan, lambda _: self, lambda: self.now)

    def passes(self, seconds):
        self.now += seconds

    def describe_topics(self, _, **__):
        self.asked.append(self.now)
        answer = Future()
        if isinstance(self.topic_id, int):
            answer.set_exception(KafkaException(KafkaError(self.topic_id)))
        elif self.answering:
            answer.set_result(SimpleNamespace(topic_id=self.topic_id))
        return {"in": answer}

    def list_offsets(self, *_, **__):
        return {}

    def batch(self):
        self.check.begin()
        self.check.require()

    def look_until(self, seconds):
        while self.now < seconds:
            self.check.look()
            self.passes(0.25)


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


@pytest.fixture
def losing(monkeypatch):
    """The same if records may be lost."""
    return World(monkeypatch, CONTINUE)


def test_a_batch_of_the_same_topic_passes_with_one_request(world):
    world.batch()
    assert world.asked == [0.0]


def test_a_batch_that_read_a_topic_that_was_created_again_is_refused(world):
    world.topic_id = "second"
    with pytest.raises(DataLossError, match="topic in was deleted and created again while the service ran"):
        world.batch()


def test_or_the_query_starts_again_if_records_may_be_lost(losing):
    losing.topic_id = "second"
    with pytest.raises(TopicCreatedAgainError, match="topic in was deleted and created again"):
        losing.batch()


def test_the_answer_to_the_request_after_the_read_decides(world):
    """A topic that is created again later has no record in the batch."""
    world.check.begin()
    world.topic_id = "second"
    world.check.require()


def test_a_missing_topic_counts_as_deleted_after_a_while(world):
    world.topic_id = GONE
    with pytest.raises(TopicDeletedError, match="topic in was deleted while the service ran"):
        world.batch()
    assert world.now >= MISSING_S


def test_a_missing_topic_that_is_created_again_meanwhile_is_called_that(world, monkeypatch):
    def passes(seconds):
        world.now += seconds
        world.topic_id = "second" if world.now > 1.0 else GONE

    monkeypatch.setattr(topic_check, "time", SimpleNamespace(sleep=passes))
    world.topic_id = GONE
    with pytest.raises(DataLossError, match="created again"):
        world.batch()


def test_a_query_without_batches_looks_at_intervals_and_a_batch_takes_the_place_of_a_look(world):
    world.look_until(2 * PERIOD_S)
    assert world.asked == [PERIOD_S]
    world.batch()
    world.look_until(3 * PERIOD_S)
    assert world.asked == [PERIOD_S, 2 * PERIOD_S]


def test_a_query_without_batches_notices_a_topic_that_was_created_again(world):
    world.topic_id = "second"
    with pytest.raises(DataLossError, match="created again"):
        world.look_until(2 * PERIOD_S)


def test_a_look_does_not_wait_for_its_answer(world):
    world.answering = False
    world.look_until(10 * PERIOD_S)
    assert world.asked == [PERIOD_S]


def test_brokers_that_are_gone_for_good_end_a_query_without_batches(world):
    world.topic_id = NO_ANSWER
    with pytest.raises(UnavailableError, match="the brokers a:1 do not answer"):
        world.look_until(1000.0)
    assert PERIOD_S + UNREACHABLE_S <= world.now <= 60.0 - LOOK_S + PERIOD_S


def test_brokers_that_answer_again_in_time_do_not(world):
    for _ in range(3):
        world.topic_id = NO_ANSWER
        world.look_until(world.now + UNREACHABLE_S - PERIOD_S)
        world.topic_id = "first"
        world.look_until(world.now + 2 * PERIOD_S)

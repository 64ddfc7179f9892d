"""The retry policy of requests to Kafka, with a clock of the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from confluent_kafka import KafkaError, KafkaException

from sluice.kafka import requests
from sluice.kafka.kafka_errors import HungError, UnavailableError
from sluice.kafka.requests import (
    PAUSES,
    RETRY_TIMEOUT_S,
    RETRY_VARIABLE,
    Patience,
    Requests,
    Time,
    bounded,
    patience,
    transient,
)


class World:
    """Clients that answer with what `answers` holds, a clock, and the pauses that were made."""

    def __init__(self, *answers, takes=0.0):
        self.answers, self.takes = list(answers), takes
        self.now, self.pauses, self.made, self.used = 0.0, [], 0, []
        self.requests = Requests(self.make, time=Time(lambda: self.now, self.sleep))

    def make(self, report):
        self.made += 1
        self.report = report
        return self.made

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds

    def question(self, client):
        self.used.append(client)
        self.now += self.takes
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return answer

    def ask(self):
        return self.requests.send("do it", self.question)


def test_a_client_that_answers_is_kept():
    world = World("yes")
    assert [world.ask() for _ in range(3)] == ["yes"] * 3
    assert world.used == [1, 1, 1]


@pytest.mark.parametrize(
    "code",
    [KafkaError.FENCED_LEADER_EPOCH, KafkaError._NOENT, KafkaError._TRANSPORT, KafkaError.INVALID_PRODUCER_ID_MAPPING],
)
def test_a_transient_error_is_asked_again_with_a_new_client_each_time(code):
    world = World(code, code, "yes")
    assert world.ask() == "yes"
    assert world.used == [1, 2, 3]
    assert world.pauses == [PAUSES[0], 2 * PAUSES[0]]


def test_pauses_grow_up_to_their_bound_and_end_with_the_patience():
    world = World(KafkaError.FENCED_LEADER_EPOCH)
    with pytest.raises(UnavailableError, match=r"cannot do it: .*Leader epoch"):
        world.ask()
    assert world.now == pytest.approx(RETRY_TIMEOUT_S)
    assert max(world.pauses) == PAUSES[1]
    assert len(set(world.used)) == len(world.used) > RETRY_TIMEOUT_S / PAUSES[1]


def test_the_time_of_the_attempts_counts():
    world = World(KafkaError._TIMED_OUT, takes=25.0)
    with pytest.raises(UnavailableError):
        world.ask()
    assert len(world.used) == 3


def test_each_question_has_the_whole_patience():
    world = World("yes")
    world.ask()
    world.now += 10 * RETRY_TIMEOUT_S
    world.answers = [KafkaError._TRANSPORT, "yes"]
    assert world.ask() == "yes"


@pytest.mark.parametrize(
    "code",
    [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError.PRODUCER_FENCED,
     KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._AUTHENTICATION],
)  # fmt: skip
def test_any_other_error_is_final_at_once(code):
    world = World(code)
    assert not transient(KafkaError(code))
    with pytest.raises(UnavailableError, match="cannot do it: "):
        world.ask()
    assert (world.used, world.pauses) == ([1], [])


def test_after_a_final_error_the_next_question_gets_a_new_client():
    world = World(KafkaError.TOPIC_AUTHORIZATION_FAILED, "yes")
    with pytest.raises(UnavailableError):
        world.ask()
    assert world.ask() == "yes"
    assert world.used == [1, 2]


def test_a_login_that_was_refused_is_final_though_the_request_only_timed_out():
    world = World("unused")

    def question(client):
        world.used.append(client)
        world.report(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    with pytest.raises(UnavailableError, match="wrong password"):
        world.requests.send("do it", question)
    assert world.used == [1]


def test_a_call_that_does_not_return_is_asked_again_with_a_new_client(monkeypatch):
    monkeypatch.setattr(requests, "SLACK", 0.05)
    world, never = World("yes"), threading.Event()

    def question(client):
        world.used.append(client)
        if client == 1:
            never.wait()
        return client

    assert world.requests.send("do it", question, seconds=0.05) == 2
    never.set()


def test_requests_may_share_the_time_for_which_they_wait():
    """A start sends many requests one after the other. In all it waits no longer than one of them may."""
    world = World(KafkaError._TRANSPORT, "yes", KafkaError._TRANSPORT, takes=20.0)
    with patience(60.0):
        assert world.ask() == "yes"
        with pytest.raises(UnavailableError, match="; this start has waited for Kafka for 60 seconds in all"):
            world.ask()
    assert world.now == pytest.approx(20 + 60, abs=2 * PAUSES[1]), "the attempt that succeeded does not count"


def test_a_success_costs_no_patience():
    world = World("yes", takes=50.0)
    with patience(60.0):
        assert [world.ask() for _ in range(3)] == ["yes"] * 3


def test_requests_in_threads_share_it_too():
    world = World(KafkaError._TRANSPORT, takes=20.0)
    with patience(10.0), pytest.raises(UnavailableError, match="for 10 seconds in all"):
        bounded("do it", 10, world.ask)
    assert len(world.used) == 1


def test_what_several_requests_wait_at_the_same_time_counts_once():
    shared = Patience(60.0)
    for begin, end in ((0, 10), (5, 12), (6, 8), (20, 25)):
        shared.spend(begin, end)
    assert shared.left == 60 - 12 - 5


def test_a_bounded_call_gives_its_result_or_its_error():
    assert bounded("do it", 10, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        bounded("do it", 10, lambda: 1 // 0)


def test_a_bounded_call_that_hangs_is_an_error_that_ends_the_service_with_code_3():
    never = threading.Event()
    with pytest.raises(HungError, match=r"cannot do it: the Kafka client did not return within 0 seconds") as raised:
        bounded("do it", 0.05, never.wait)
    assert raised.value.exit_code == 3
    never.set()


def test_the_environment_sets_how_long_requests_and_batches_are_repeated():
    program = (
        "from sluice.kafka import batch_producers, requests; "
        "print(requests.RETRY_TIMEOUT_S, batch_producers.TimeLimits().step)"
    )
    for variables, expected in (({}, "60.0 60.0"), ({RETRY_VARIABLE: "15"}, "15.0 15.0")):
        made = subprocess.run(
            [sys.executable, "-c", program], env=os.environ | variables, capture_output=True, text=True, check=True
        )
        assert made.stdout.strip() == expected

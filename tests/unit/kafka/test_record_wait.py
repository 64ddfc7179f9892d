import threading
import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from sluice.kafka import record_wait
from sluice.kafka.range_reader import END
from sluice.kafka.record_wait import RecordWait

STARTS = {("trades", 0): 7, ("trades", 1): 3}
KAFKA = {"bootstrap.servers": "there:1"}


class Message:
    def __init__(self, code=None):
        self._error = None if code is None else KafkaError(code)

    def error(self):
        return self._error


class Client:
    """A consumer whose polls give these answers, and then nothing."""

    def __init__(self, *answers):
        self.answers, self.assigned, self.closed, self.made = list(answers), [], 0, 0

    def __call__(self, properties):
        self.made, self.properties = self.made + 1, properties
        return self

    def assign(self, places):
        self.assigned.append({(one.topic, one.partition): one.offset for one in places})

    def unassign(self):
        self.assigned.append(None)

    def poll(self, seconds):
        if not self.answers:
            time.sleep(min(seconds, 0.001))
            return None
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self):
        self.closed += 1


def rang(client, seconds=5.0):
    return RecordWait(KAFKA, client).wait(STARTS, seconds)


def test_a_record_ends_the_wait_and_then_nothing_is_requested():
    client = Client(None, Message())
    assert rang(client)
    assert client.assigned == [STARTS, None]
    assert client.properties["isolation.level"] == "read_committed"


def test_without_a_record_it_waits_for_the_whole_time():
    began = time.monotonic()
    assert not rang(Client(), 0.05)
    assert time.monotonic() - began >= 0.05


def test_the_end_of_a_topic_partition_is_no_record():
    assert not rang(Client(Message(END), Message(END)), 0.01)


@pytest.mark.parametrize("answer", [Message(KafkaError.OFFSET_OUT_OF_RANGE), Message(KafkaError._ALL_BROKERS_DOWN)])  # noqa: SLF001
def test_an_event_of_the_client_ends_the_wait_and_spark_reports_what_is_wrong(answer):
    assert rang(Client(answer))


def test_after_an_error_of_the_client_the_next_wait_has_a_new_one():
    client = Client(KafkaException(KafkaError(KafkaError._FATAL)), Message())  # noqa: SLF001
    wait = RecordWait(KAFKA, client)
    assert wait.wait(STARTS, 5.0)
    assert wait.wait(STARTS, 5.0)
    assert client.made == 2


def test_the_same_offsets_are_requested_once():
    client = Client()
    wait = RecordWait(KAFKA, client)
    for starts in (STARTS, STARTS, {**STARTS, ("trades", 1): 4}):
        wait.wait(starts, 0.001)
    assert client.assigned == [STARTS, {**STARTS, ("trades", 1): 4}]


def test_the_end_of_the_query_ends_the_wait():
    wait = RecordWait(KAFKA, Client())
    wait.end()
    assert wait.wait(STARTS, 60.0)


class Hung(Client):
    """Its calls about topic partitions do not return before the end of the test."""

    def __init__(self, over):
        super().__init__(Message())
        self.over = over

    def assign(self, places):
        self.over.wait(30)


def test_a_client_that_does_not_return_is_replaced(monkeypatch):
    monkeypatch.setattr(record_wait, "REQUEST", 0.01)
    over = threading.Event()
    clients = [Hung(over), Client(Message())]
    wait = RecordWait(KAFKA, lambda _: clients.pop(0))
    assert wait.wait(STARTS, 5.0), "Spark asks for itself"
    assert wait.wait(STARTS, 5.0)
    assert not clients
    over.set()

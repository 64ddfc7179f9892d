from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import OFFSET_INVALID

from sluice.kafka import range_reader
from sluice.kafka.kafka_errors import HeaderNameError, UnavailableError
from sluice.kafka.range_reader import ends, headers_of, headers_of_each, read
from sluice.kafka.requests import Requests, Time
from tests.unit.kafka.broker_tools import produce_with_header


class Client:
    """Answers as an AdminClient does: with OFFSET_INVALID and no error where the broker did not answer in time."""

    def __init__(self, answers):
        self._answers = answers

    def list_offsets(self, wanted, **_):
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        future: Future = Future()
        future.set_result(SimpleNamespace(offset=answer))
        return dict.fromkeys(wanted, future)


def requests(*answers):
    now, left = [0.0], list(answers)

    def sleep(seconds):
        now[0] += seconds

    return Requests(lambda _: Client(left), time=Time(lambda: now[0], sleep))


def test_an_end_that_no_broker_told_is_asked_again():
    """Taken for an end it would let the clock pass records that were not read yet."""
    assert ends(requests(OFFSET_INVALID, OFFSET_INVALID, 7), [("t", 0)]) == {("t", 0): 7}


def test_an_end_that_no_broker_tells_is_an_error():
    with pytest.raises(UnavailableError, match="cannot list the ends of topic partitions: "):
        ends(requests(OFFSET_INVALID), [("t", 0)])


@pytest.mark.kafka
def test_a_header_name_that_is_not_utf8_is_an_error_each_time_it_is_read(kafka, topic):
    produce_with_header(kafka, topic, b"a", "trace-é".encode())
    produce_with_header(kafka, topic, b"b", b"\xff")
    found = []
    read(kafka, {}, {(topic, 0): 2}, found.append)
    assert headers_of(found[0]) == [("trace-é", b"h")]
    for each in (headers_of_each, headers_of_each, lambda messages: headers_of(messages[1])):
        with pytest.raises(HeaderNameError, match=rf"not UTF-8.*\(topic {topic}, topic partition 0, offset 1\)"):
            each(found)
    assert headers_of_each(found[:1]) == [[("trace-é", b"h")]]
    assert found[1].value() == b"b"


@pytest.mark.kafka
def test_records_that_a_broker_does_not_know_yet_are_missed(kafka, topic, monkeypatch):
    """A follower, or a new leader, may say that a topic partition ends before an offset that was read already."""
    produce_with_header(kafka, topic, b"a", b"h")
    monkeypatch.setattr(range_reader, "REQUEST", 1.0)
    found = []
    with pytest.raises(
        UnavailableError, match=f"topic {topic}, topic partition 0, has no records at the offsets 1 to 4"
    ):
        read(kafka, {}, {(topic, 0): 5}, found.append, retry_s=0.0)
    assert [message.value() for message in found] == [b"a"]

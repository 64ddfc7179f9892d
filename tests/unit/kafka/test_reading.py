from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import OFFSET_INVALID

from sluice.kafka.kafka_errors import UnavailableError
from sluice.kafka.reading import ends
from sluice.kafka.requests import Requests, Time


class Client:
    """Answers as an AdminClient does: with OFFSET_INVALID and no error where the broker did not answer in time."""

    def __init__(self, answers):
        self._answers = answers

    def list_offsets(self, wanted, **_):
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        future: Future = Future()
        future.set_result(SimpleNamespace(offset=answer))
        return dict.fromkeys(wanted, future)


def asking(*answers):
    now, left = [0.0], list(answers)

    def sleep(seconds):
        now[0] += seconds

    return Requests(lambda _: Client(left), time=Time(lambda: now[0], sleep))


def test_an_end_that_no_broker_told_is_asked_again():
    """Taken for an end it would let the clock pass records that were not read yet."""
    assert ends(asking(OFFSET_INVALID, OFFSET_INVALID, 7), [("t", 0)]) == {("t", 0): 7}


def test_an_end_that_no_broker_tells_is_an_error():
    with pytest.raises(UnavailableError, match="cannot list the ends of topic partitions: "):
        ends(asking(OFFSET_INVALID), [("t", 0)])

"""Checks that the input topics are still the topics whose records the query reads, by Kafka's ids of them.

Kafka gives a topic another id when it is deleted and created again, and then counts offsets from 0 again. A reader sees
nothing of it once the new topic has more records than the old one had: it goes on in the middle of the new topic.

    a batch    its records are read --> begin --> its outputs are computed --> require --> its transaction
    no batch   `look`, every PERIOD_S

The request of `begin` is sent after the last record was read and is answered while the batch computes, so a batch that
is committed has no record of a topic with another id. A broker answers from its own copy of the cluster's metadata,
which follows the controller's within milliseconds: this is the bound.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from sluice.batch.query_plan import Plan
from sluice.checkpoint.topic_ids import created_again, refused
from sluice.kafka.client import client_properties
from sluice.kafka.kafka_errors import TopicCreatedAgainError, TopicDeletedError, UnavailableError
from sluice.kafka.requests import REQUEST, RETRY_TIMEOUT_S, SLACK, discard, send_request, transient
from sluice.model.kafka_properties import servers
from sluice.spark.lanes.missing_records import HeldBack

#: seconds between two checks while no batch reads records
PERIOD_S = 2.0
#: Seconds after which a missing topic counts as deleted: it may be created again right away. And seconds between two
#: requests meanwhile
MISSING_S, PAUSE_S = 2.0, 0.1
#: seconds of a request of `look`, and the seconds of failures after which no broker counts as reachable: both together,
#: with PERIOD_S, are RETRY_TIMEOUT_S
LOOK_S = min(REQUEST, RETRY_TIMEOUT_S / 4)
UNREACHABLE_S = max(0.0, RETRY_TIMEOUT_S - LOOK_S - PERIOD_S)

#: topic -> Kafka's id of it; None: there is no such topic
Ids = Mapping[str, str | None]
#: the answers of the client to one request, by topic
Answers = Mapping[str, Any]


class TopicCheck:
    """Compares the ids of the input topics with those at the start of the query."""

    def __init__(
        self, plan: Plan, make: Callable[[dict[str, Any]], AdminClient] = AdminClient,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`make` makes a client with these properties. `clock` gives seconds."""
        self._make, self._held_back = make, HeldBack(plan.places, clock)
        self._kafka = plan.pipeline.settings.kafka
        self._may_lose = plan.pipeline.settings.on_data_loss == "continue"
        self._ids = dict(plan.topic_ids)
        self._clock = clock
        self._lock = threading.Lock()
        self._clients: list[AdminClient] = []
        #: the request of a batch, and the request of `look`
        self._begun: Answers = {}
        self._looking: Answers | None = None
        #: when the last request was sent, and since when those of `look` have failed
        self._sent = clock()
        self._failing: float | None = None

    def begin(self) -> None:
        """Begins the check of a batch, all records of which were read."""
        self._begun = self._request()

    def require(self) -> None:
        """Waits for the answer to the last `begin`.

        Raises DataLossError or TopicDeletedError if a topic has another id or is missing. If records may be lost, it
        raises TopicCreatedAgainError in place of the former.
        """
        try:
            ids = _ids(self._begun)
        except KafkaException:
            self._renew()
            ids = _present(self._kafka, self._ids)
        if None in ids.values():
            ids = self._created(ids)
        self._compare(ids)

    def passed(self) -> None:
        """The whole check at once, where a part of the batch is written before `require`."""
        self.begin()
        self.require()

    def look(self) -> None:
        """Sends a request if PERIOD_S have passed since the last one, and looks at its answer in a later call.

        Does not wait for it. Also looks for open transactions that hide records (topic_check.py). Raises as `require`
        does, and UnavailableError if no broker answers for RETRY_TIMEOUT_S.
        """
        self._held_back.look(self._client())
        if self._looking is None:
            if self._clock() >= self._sent + PERIOD_S:
                self._looking = self._request(LOOK_S)
        elif all(answer.done() for answer in self._looking.values()):
            answers, self._looking = self._looking, None
            try:
                ids = _ids(answers)
            except KafkaException as error:
                self._not_answered(error.args[0])
            else:
                self._failing = None
                self._compare(self._created(ids) if None in ids.values() else ids)

    def close(self) -> None:
        with self._lock:
            discard(self._clients)

    def _request(self, seconds: float = REQUEST) -> Answers:
        self._sent = self._clock()
        return _described(self._client(), self._ids, seconds)

    def _client(self) -> AdminClient:
        with self._lock:
            if not self._clients:
                self._clients.append(self._make(client_properties(self._kafka, "admin")))
            return self._clients[0]

    def _renew(self) -> None:
        """Lets the next request have a new client: the view of this one may be out of date (kafka/requests.py)."""
        with self._lock:
            discard(self._clients, 0.0)

    def _not_answered(self, error: KafkaError) -> None:
        self._renew()
        self._failing = self._clock() if self._failing is None else self._failing
        if self._clock() >= self._failing + UNREACHABLE_S:
            fault = (
                f"the brokers {servers(self._kafka)} do not answer" if transient(error) else "cannot describe topics"
            )
            raise UnavailableError(f"{fault}: {error.str()}")

    def _created(self, ids: Ids) -> Ids:
        """The ids as soon as no topic is missing any more, or after MISSING_S."""
        deadline = self._clock() + MISSING_S
        while None in ids.values() and self._clock() < deadline:
            time.sleep(PAUSE_S)
            with suppress(UnavailableError):
                ids = _present(self._kafka, self._ids)
        return ids

    def _compare(self, ids: Ids) -> None:
        missing = sorted(name for name, its_id in ids.items() if its_id is None)
        changed = sorted(name for name, its_id in ids.items() if its_id not in (None, self._ids[name]))
        if changed:
            topics = created_again(changed, "while the service ran")
            raise TopicCreatedAgainError(topics) if self._may_lose else refused(topics)
        if missing:
            raise TopicDeletedError(f"topic {', '.join(missing)} was deleted while the service ran")


def _described(client: AdminClient, names: Mapping[str, str], seconds: float = REQUEST) -> Answers:
    return client.describe_topics(TopicCollection([*names]), request_timeout=seconds) if names else {}


def _present(kafka: Mapping[str, str], names: Mapping[str, str]) -> Ids:
    return send_request(kafka, "admin", "describe topics", lambda client: _ids(_described(client, names)))


def _ids(answers: Answers) -> Ids:
    return {name: _id(answer) for name, answer in answers.items()}


def _id(answer: Any) -> str | None:  # noqa: ANN401 - the library has no types
    try:
        return str(answer.result(REQUEST + SLACK).topic_id)
    except TimeoutError as error:  # the client did not return
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from error  # noqa: SLF001
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise

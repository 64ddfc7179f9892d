"""Two consumer groups of a service: one whose membership is the lead of a pipeline, and one for monitors of its lag.

The lead: Kafka grants it to one of the instances that wait for it. Each instance joins a consumer group of the
pipeline, which subscribes to the topic of the ledger. Kafka assigns the topic partition of the ledger to one member of
the group: this member has the lead. If the topic has further topic partitions, which the service does not create, they
have no meaning. No record is read, and no offset is committed.

    a member joins        the leader keeps the topic partition ("cooperative-sticky")
    the leader leaves     the group assigns the topic partition to another member at once
    the leader is silent  after SESSION_S seconds without its heartbeat the group does the same

A leader that gets no answer to its heartbeats for SESSION_S seconds must assume that it is no longer the leader. The
lead decides which instance works. The fencing of the transactional id protects the outputs (batch_producers.py).

The consumer protocol of Kafka 4 (`group.protocol: consumer`) is not used: there the broker decides on the session
time-out, which is 45 s by default and cannot be shorter without another configuration of the brokers.

The group for monitors: the service commits its input offsets there and never reads them. The checkpoint decides where
the service continues.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context
from typing import Any, Self

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from sluice.kafka import ledger
from sluice.kafka.client import LOGGER, client_properties
from sluice.kafka.kafka_errors import HungError, UnavailableError
from sluice.kafka.requests import LOGIN_FAILED, REQUEST, SLACK, bounded, discard, reason_of, transient

#: name of an environment variable whose number of seconds replaces the 6 of SESSION_S
SESSION_VARIABLE = "SLUICE_LEAD_SECONDS"
#: seconds without a heartbeat after which a member is no longer in the group: the least that brokers allow by default
#: (group.min.session.timeout.ms)
SESSION_S = float(os.environ.get(SESSION_VARIABLE, "6"))
#: seconds between two heartbeats. A member learns from the answer that it has to join again, so this delays a take-over
HEARTBEAT_S = 0.3
#: seconds without a call of `poll` after which the client library leaves the group: the process hangs. The client also
#: waits so long, and 3 s more, for the answer to its request to join, which may be lost, so this bounds a take-over
MAX_POLL_S = 12.0
#: seconds that a call of `poll` waits, and the longest time that a member may take to leave the group
WAIT_S, LEAVE_S = 0.1, 3.0
#: seconds between two requests by which a member that waits finds out whether a broker answers its client
CHECK_S = 10.0
#: seconds between a consumer's failure and the start of its replacement
PAUSE_S = 1.0

#: errors after which no later attempt to join the group can succeed
REFUSALS = LOGIN_FAILED | {
    KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.INVALID_SESSION_TIMEOUT,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL, KafkaError.INVALID_GROUP_ID,
}  # fmt: skip


class LeadError(UnavailableError):
    """Kafka refuses the membership in the group."""


def lead_group_of(pipeline: str) -> str:
    return f"sluice.lead.{pipeline}"


class Lead:
    """A membership in the group of a pipeline, which lasts as long as the context. It is granted the lead at
    most once: after a loss of the lead, another membership is needed.
    """

    def __init__(self, kafka: Mapping[str, str], pipeline: str, lost: Callable[[], None] = lambda: None) -> None:
        """`lost` is called, from a thread, if the lead is lost before the context ends."""
        self._kafka, self._pipeline, self._on_loss = kafka, pipeline, lost
        self._granted, self._lost, self._stopped = threading.Event(), threading.Event(), threading.Event()
        #: set when there is something to wait for: the lead, or an error
        self._decided = threading.Event()
        self._error: LeadError | None = None
        work = copy_context().run  # so that log lines of the thread name the pipeline
        self._thread = threading.Thread(target=work, args=(self._run,), name="sluice-lead", daemon=True)

    def wait(self, seconds: float) -> bool:
        """Waits until Kafka grants the lead, at most so many seconds. Returns whether it was granted.

        Raises LeadError if Kafka refuses the membership.
        """
        self._decided.wait(seconds)
        if self._error is not None:
            raise self._error
        return self._granted.is_set()

    @property
    def lost(self) -> bool:
        """Whether the lead was granted and then lost."""
        return self._lost.is_set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Leaves the group: another member gets the lead at once."""
        self._stopped.set()
        self._thread.join(LEAVE_S + 1)

    @property
    def _properties(self) -> dict[str, object]:
        return client_properties(self._kafka, "consumer") | {
            "group.id": lead_group_of(self._pipeline),
            "group.protocol": "classic",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": round(SESSION_S * 1000),
            "heartbeat.interval.ms": round(HEARTBEAT_S * 1000),
            "max.poll.interval.ms": round(max(MAX_POLL_S, SESSION_S) * 1000),
            "enable.auto.commit": False,
        }

    def _run(self) -> None:
        while not (self._stopped.is_set() or self._lost.is_set() or self._error is not None):
            try:
                self._with_a_new_client()
            except Exception as error:  # noqa: BLE001 - without this thread the instance would wait for the lead for ever
                LOGGER.warning("the membership in the group of the lead has failed: %s", error, exc_info=error)
                self._lose()
                self._stopped.wait(PAUSE_S)

    def _with_a_new_client(self) -> None:
        """Takes part until the client fails, the lead is lost, or the context ends."""
        consumers: list[Any] = []
        try:
            consumers.append(Consumer(self._properties))
            self._take_part(consumers[0])
        except (KafkaException, HungError) as error:
            if self._granted.is_set():
                self._lose()
            elif isinstance(error, KafkaException) and error.args[0].code() in REFUSALS:
                self._refuse(error.args[0])
            else:
                LOGGER.warning("waiting for the lead with a new Kafka client: %s", reason_of(error))
                self._stopped.wait(PAUSE_S)
        finally:
            discard(consumers, LEAVE_S)

    def _take_part(self, consumer: Consumer) -> None:
        """Stays in the group until the context ends or the lead is lost. Raises KafkaException or HungError on a
        failure.
        """
        revoked = self._revoked
        consumer.subscribe([ledger.TOPIC], on_assign=self._assigned, on_revoke=revoked, on_lost=revoked)
        answered = time.monotonic()
        while not (self._stopped.is_set() or self._lost.is_set()):
            message = consumer.poll(WAIT_S)
            if message is not None and message.error() and not transient(message.error()):
                raise KafkaException(message.error())
            if not self._granted.is_set() and time.monotonic() - answered > CHECK_S:
                bounded("wait for the lead", REQUEST + SLACK, lambda: _end(consumer))
                answered = time.monotonic()

    def _assigned(self, consumer: Consumer, topic_partitions: list[TopicPartition]) -> None:
        if not topic_partitions:
            return
        # The client library needs the assignment, but must fetch no record.
        consumer.incremental_assign(
            [TopicPartition(place.topic, place.partition, OFFSET_END) for place in topic_partitions]
        )
        consumer.pause(topic_partitions)
        if _includes_lead(topic_partitions):
            self._granted.set()
            self._decided.set()

    def _revoked(self, consumer: Consumer, topic_partitions: list[TopicPartition]) -> None:
        if topic_partitions:
            consumer.incremental_unassign(topic_partitions)
            if _includes_lead(topic_partitions):
                self._lose()

    def _lose(self) -> None:
        if self._granted.is_set() and not self._stopped.is_set() and not self._lost.is_set():
            self._lost.set()
            self._on_loss()

    def _refuse(self, error: KafkaError) -> None:
        hint = ""
        if error.code() == KafkaError.INVALID_SESSION_TIMEOUT:
            hint = (
                f"; the time-out is {SESSION_S:g} seconds (environment variable {SESSION_VARIABLE}), and the brokers "
                "bound it by group.min.session.timeout.ms and group.max.session.timeout.ms"
            )
        self._error = LeadError(f"cannot join the group {lead_group_of(self._pipeline)}: {error.str()}{hint}")
        self._decided.set()


def _includes_lead(topic_partitions: Iterable[TopicPartition]) -> bool:
    return any(place.partition == ledger.PARTITION for place in topic_partitions)


def _end(consumer: Consumer) -> None:
    consumer.get_watermark_offsets(TopicPartition(ledger.TOPIC, ledger.PARTITION), timeout=REQUEST)


def lag_group_of(query: str) -> str:
    return f"sluice.{query}"


class InputOffsets:
    """Commits, for one query, the offset of the next record to read of each topic partition."""

    def __init__(self, kafka: Mapping[str, str], query: str) -> None:
        properties = {"group.id": lag_group_of(query), "enable.auto.commit": False, "on_commit": _committed}
        self._consumer = Consumer(client_properties(kafka, "consumer") | properties)

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commits `offsets`, by topic and topic partition, without waiting for the broker. A failure is only logged."""
        committed = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        try:
            self._consumer.poll(0)  # calls `_committed` for earlier commits
            self._consumer.commit(offsets=committed, asynchronous=True)
        except KafkaException as error:
            _committed(error.args[0], [])

    def close(self) -> None:
        discard([self._consumer])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _committed(error: KafkaError | None, _: list[TopicPartition]) -> None:
    if error is not None:
        LOGGER.warning("cannot commit input offsets for lag monitors: %s", error.str())

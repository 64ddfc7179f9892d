"""The retry policy of all requests to Kafka: which errors are retried, with which client, for how long.

An error is *transient* if Kafka may answer the same request later: a broker restarts, a leader or a coordinator moves,
a connection is lost. After a transient error the request is repeated for `RETRY_TIMEOUT_S` seconds, each time with a
new client. A client of librdkafka can keep a wrong view of the cluster after a broker's restart: its cached leader
epoch makes every further answer FENCED_LEADER_EPOCH, and it never looks up a coordinator again that a re-bootstrap
removed (librdkafka issue 5511). Every other error is final at once.

A call of the client library may also never return. `bounded` ends the wait for such a call. The call itself ends only
with its process.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, Generic, NamedTuple, Self, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sluice.kafka.client import LOGGER, Role, client_properties
from sluice.kafka.kafka_errors import HungError, UnavailableError

T = TypeVar("T")
Client = TypeVar("Client")

#: name of an environment variable whose number of seconds replaces the 60 of RETRY_TIMEOUT_S
RETRY_VARIABLE = "SLUICE_RETRY_SECONDS"
#: seconds during which a request is repeated after transient errors, counted from the start of the first attempt
RETRY_TIMEOUT_S = float(os.environ.get(RETRY_VARIABLE, "60"))
#: seconds before the second attempt, and the longest pause: each further pause is twice as long, up to this bound
PAUSES = 0.2, 2.0
#: time-out of a request in the client library, in seconds
REQUEST = 10.0
#: seconds beyond the client library's own time-out after which a call counts as hung
SLACK = 15.0

#: errors that mean that a broker cannot be reached or does not answer
UNREACHABLE = frozenset({
    KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE,
    KafkaError._MSG_TIMED_OUT, KafkaError._RESOLVE, KafkaError.NETWORK_EXCEPTION, KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
})  # fmt: skip
#: errors of a client whose view of the cluster or of its own producer is out of date; a new client gets a new view
OUTDATED_CLIENT = frozenset({
    KafkaError._NOENT, KafkaError._UNKNOWN_BROKER, KafkaError._WAIT_COORD, KafkaError._WAIT_CACHE,
    KafkaError._DESTROY_BROKER, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError._RETRY,
    KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE, KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_COORDINATOR, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.INCONSISTENT_TOPIC_ID, KafkaError.REBOOTSTRAP_REQUIRED, KafkaError.FETCH_SESSION_ID_NOT_FOUND,
    KafkaError.UNKNOWN_PRODUCER_ID, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError.TRANSACTION_ABORTABLE,
    # The brokers forget a transactional id that was not used for `transactional.id.expiration.ms`, by default 7 days.
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
})  # fmt: skip
#: errors of a broker that is temporarily unable to answer
BUSY = frozenset({
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.UNSTABLE_OFFSET_COMMIT, KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, KafkaError.KAFKA_STORAGE_ERROR, KafkaError._IN_PROGRESS,
    KafkaError.THROTTLING_QUOTA_EXCEEDED, KafkaError._PREV_IN_PROGRESS,
    # Fewer brokers than `default.replication.factor` have joined the cluster, as while they restart.
    KafkaError.INVALID_REPLICATION_FACTOR,
})  # fmt: skip
TRANSIENT = UNREACHABLE | OUTDATED_CLIENT | BUSY
#: errors that a client reports to `error_cb` while its request times out, and after which no later attempt can succeed
LOGIN_FAILED = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})


def reason_of(error: Exception) -> str:
    """What went wrong, without the number of Kafka's error."""
    return error.args[0].str() if isinstance(error, KafkaException) else str(error)


def transient(error: KafkaError) -> bool:
    """Whether Kafka may answer the same request later."""
    return error.code() in TRANSIENT or bool(error.retriable())


def bounded(action: str, seconds: float, call: Callable[[], T]) -> T:
    """The result of `call`. Raises HungError if the call has not returned after `seconds`.

    The call runs in a thread of its own, which continues after HungError. The caller must not use any object again that
    the call uses.
    """
    return begun(action, call)(seconds)


def begun(action: str, call: Callable[[], T]) -> Callable[[float], T]:
    """Begins `call`. Returns a function to call once, which waits for the result as `bounded` does: at most so many
    seconds from then on.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            errors.append(error)

    def result(seconds: float) -> T:
        thread.join(seconds)
        if thread.is_alive():
            raise HungError(f"cannot {action}: the Kafka client did not return within {seconds:.0f} seconds")
        if errors:
            try:
                raise errors[0]
            finally:
                errors.clear()  # the traceback refers to this frame
        return results[0]

    thread = threading.Thread(target=copy_context().run, args=(run,), name=f"sluice-{action}", daemon=True)
    thread.start()
    return result


class Patience:
    """The seconds for which many requests together may wait for Kafka, also at the same time."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.left = seconds, seconds
        self._counted, self._lock = float("-inf"), threading.Lock()

    def spend(self, begin: float, end: float) -> None:
        """Counts the time from `begin` to `end` on the clock of the requests, unless it is counted already."""
        with self._lock:
            self.left -= max(0.0, end - max(begin, self._counted))
            self._counted = max(self._counted, end)


#: what the requests of this context may still wait in all; None: each of them has RETRY_TIMEOUT_S
_PATIENCE: ContextVar[Patience | None] = ContextVar("patience", default=None)


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """All requests that fail in this context, also in threads that have a copy of it, are repeated for so many seconds
    in all.
    """
    token = _PATIENCE.set(Patience(seconds))
    try:
        yield
    finally:
        _PATIENCE.reset(token)


class Time(NamedTuple):
    """The clock and the sleep function of the retry policy, in seconds. Tests replace them."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Requests(Generic[Client]):
    """Sends requests to Kafka with one client, and with a new client after each transient error."""

    def __init__(
        self,
        make: Callable[[Callable[[KafkaError], None]], Client],
        retry_s: float | None = None,
        time: Time | None = None,
    ) -> None:
        """`make` makes a client with the given `error_cb`. `retry_s` replaces RETRY_TIMEOUT_S, in seconds."""
        self._make = make
        self._retry_s = RETRY_TIMEOUT_S if retry_s is None else retry_s
        self._time = time or Time()
        self._client: Client | None = None
        self._reported: list[KafkaError] = []

    def send(
        self, action: str, request: Callable[[Client], T], *, seconds: float = REQUEST,
        explain: Callable[[str], str] | None = None,
    ) -> T:  # fmt: skip
        """The result of `request`, which sends one through a client. It is called again after each transient error.

        action    name of the action in messages: "cannot <action>"
        seconds   time-out of the request in the client library
        explain   gives the message for the reason of a failure, in place of "cannot <action>: <reason>"

        Raises UnavailableError for a final error, and for a transient error after `retry_s` seconds of attempts, or
        when the attempts of all requests of a `patience` have taken its seconds.
        """
        began, pause, shared = self._time.now(), PAUSES[0], _PATIENCE.get()
        since = began
        while True:
            try:
                client = self._opened()
                return bounded(action, seconds + SLACK, partial(request, client))
            except (KafkaException, HungError) as error:
                reason = self._reason(error)
                self.close()
                left = began + self._retry_s - self._time.now()
                message = explain(reason.text) if explain else f"cannot {action}: {reason.text}"
                if shared is not None:
                    shared.spend(since, since := self._time.now())
                    left = min(left, shared.left)
                    if left <= 0 < began + self._retry_s - since:
                        message += f"; this start has waited for Kafka for {shared.seconds:.0f} seconds in all"
                if reason.final or left <= 0:
                    raise UnavailableError(message) from error
                LOGGER.warning("a request to Kafka failed and is repeated for %.0f s: %s", left, message)
                self._time.sleep(min(pause, left))
                pause = min(2 * pause, PAUSES[1])

    def close(self) -> None:
        """Closes the client. The next request makes a new one."""
        client, self._client = self._client, None
        if client is not None:
            discard([client])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self) -> Client:
        if self._client is None:
            self._reported = []
            self._client = self._make(self._reported.append)
        return self._client

    def _reason(self, error: Exception) -> _Reason:
        if isinstance(error, HungError):
            return _Reason("the Kafka client did not return", final=False)
        kafka: KafkaError = error.args[0]
        # The client reports a failed login only to `error_cb`, which `poll` calls. The request itself times out.
        if kafka.code() in UNREACHABLE and isinstance(self._client, AdminClient | Producer):
            self._client.poll(0)
        failed_logins = [login_error for login_error in self._reported if login_error.code() in LOGIN_FAILED]
        reported = failed_logins or (self._reported if kafka.code() in UNREACHABLE else [])
        text = reported[-1].str() if reported else kafka.str()
        return _Reason(text, final=bool(failed_logins) or not transient(kafka))


class _Reason(NamedTuple):
    """Why a request failed. `final`: no later attempt can succeed."""

    text: str
    final: bool


def send_request(
    kafka: Mapping[str, str],
    role: Role,
    action: str,
    request: Callable[[Any], T],
    own: Mapping[str, object] | None = None,
    *,
    seconds: float = REQUEST,
    retry_s: float | None = None,
) -> T:
    """The result of one request (`Requests.send`) with a client of its own.

    `own` are the client's properties beside those of the `kafka:` block. `retry_s` replaces RETRY_TIMEOUT_S.
    """
    with clients(kafka, role, own, retry_s) as requests:
        return requests.send(action, request, seconds=seconds)


def clients(
    kafka: Mapping[str, str], role: Role, own: Mapping[str, object] | None = None, retry_s: float | None = None
) -> Requests[Any]:
    """Requests with clients of a role. `own` are their properties beside those of the `kafka:` block."""
    kind = {"admin": AdminClient, "consumer": Consumer, "producer": Producer}[role]
    properties = client_properties(kafka, role) | dict(own or {})
    return Requests(lambda report: kind(properties | {"error_cb": report}), retry_s)


def watermarks(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """The offset of the first record of a topic partition, and its end (exclusive).

    The list of topics comes first: a new client replaces its first connection, and a request for offsets that is lost
    with it is repeated only after 0.7 s.
    """
    consumer.list_topics(topic, timeout=REQUEST)
    first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=REQUEST)
    return int(first), int(end)


def produce_row(producer: Producer, topic: str, row: tuple[object, ...]) -> None:
    """Puts a record into the client's queue. Raises KafkaException if the queue is full for RETRY_TIMEOUT_S.

    `row` are the arguments of `Producer.produce` after the topic.
    """
    deadline = time.monotonic() + RETRY_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            producer.produce(topic, *row)
        except BufferError:
            producer.poll(0.05)
        else:
            return
    raise KafkaException(KafkaError(KafkaError._QUEUE_FULL))


def discard(clients: list[Any], seconds: float = 1.0) -> None:
    """Closes clients, empties the list, and drops the last references to the clients.

    Closing and dropping can block while a broker does not answer. So a thread does both; this function waits for it for
    at most `seconds`.
    """
    ours = clients[:]
    clients.clear()

    def run() -> None:
        while ours:
            client = ours.pop()
            if isinstance(client, Consumer):
                client.close()

    if not ours:
        return
    thread = threading.Thread(target=run, name="sluice-discard", daemon=True)
    thread.start()
    thread.join(seconds)

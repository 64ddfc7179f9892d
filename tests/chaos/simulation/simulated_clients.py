"""The clients of `confluent_kafka` that the product uses, for the brokers of a simulated world.

Each request may be delayed, lost, repeated, arrive late, or its answer may be lost (`Network`). The clients then do as
librdkafka: they report a lost connection to `error_cb`, and repeat the request until the time-out of the call.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from types import SimpleNamespace
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from sluice.kafka.client import DEFAULTS
from sluice.kafka.librdkafka.column_consumer import Arrival, of_messages
from sluice.kafka.records import Records
from tests.chaos.kafka_frames import Effect
from tests.chaos.simulation.scheduler import world
from tests.chaos.simulation.simulated_broker import BrokerError, Kafka, Offset, Place, Record

T = TypeVar("T")
FENCING = (KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
#: answers after which the client asks again by itself
REPEATED = (KafkaError.CONCURRENT_TRANSACTIONS, KafkaError.UNSTABLE_OFFSET_COMMIT)
#: records that a leader does not show right after its election
STALE = 3
#: seconds between two attempts; each further pause is twice as long, up to the second one (`retry.backoff.max.ms`)
BACKOFF, LONGEST_BACKOFF = 0.1, 1.0
#: seconds until a client gives up a connection on which nothing arrives
HALF_OPEN_S = int(str(DEFAULTS["socket.timeout.ms"])) / 1000
#: the most records of a fetch, and of the queue of a producer
MOST_FETCHED, MOST_QUEUED = 500, 1000


class LostError(Exception):
    """The connection was lost, and the client does not know whether the request has arrived."""


class Network:
    """Between the clients and the brokers. `faults`: kind of request -> effects of its next requests."""

    def __init__(self) -> None:
        self.faults: dict[str, deque[tuple[Effect, float]]] = defaultdict(deque)
        #: seconds of a request and its answer
        self.latency = 0.001
        #: host -> until when no request of it arrives
        self.cut_off: dict[str, float] = {}
        #: late requests that arrive right after the next record of a transaction
        self._held: list[tuple[str, Callable[[], object]]] = []
        self.happened: list[str] = []

    def send(self, api: str, request: Callable[[], T]) -> T:
        here = world()
        effect, seconds = self.faults[api].popleft() if self.faults[api] else (None, 0.0)
        if effect:
            self.happened.append(f"{api} {effect.name}")
            here.say(here.running.process, f"{api}: {effect}")
        here.tick(api, here.random.random() * self.latency + (seconds if effect is Effect.DELAY else 0.0))
        self._require_broker()
        if effect is Effect.CUT:
            raise LostError
        if effect is Effect.HALF:
            here.tick(f"{api} waits", HALF_OPEN_S)
            raise LostError
        if effect is Effect.LATE:
            if here.random.random() < 0.5:
                self._held.append((api, request))
            else:
                self._later(api, request, seconds)
            raise LostError
        answer = request()
        while api == "PRODUCE" and self._held:
            self._arrive(*self._held.pop())
        if effect is Effect.REPEAT:  # TCP does not delay the second one alone
            self._arrive(api, request)
        here.tick(f"{api} answered", here.random.random() * self.latency)
        if effect is Effect.LOSE:
            raise LostError
        return answer

    @staticmethod
    def _require_broker() -> None:
        here = world()
        cut_off = here.network.cut_off.get(here.running.process.host, 0.0)  # type: ignore[attr-defined]
        if here.now < max(_kafka().down_until, cut_off):
            here.tick("no broker", BACKOFF)
            raise LostError

    @staticmethod
    def _arrive(api: str, request: Callable[[], object]) -> None:
        try:
            request()
        except BrokerError as error:
            world().say(_kafka().process, f"{api} is refused: {error}")

    @staticmethod
    def _later(api: str, request: Callable[[], object], seconds: float) -> None:
        here = world()

        def arrive() -> None:
            here.tick(f"{api} ARRIVES LATE", 0.0)
            Network._arrive(api, request)

        here.spawn(_kafka().process, f"late {api}", arrive, after=seconds)


def _kafka() -> Kafka:
    found: Kafka = world().kafka  # type: ignore[attr-defined]
    return found


class Client:
    def __init__(self, properties: Mapping[str, Any]) -> None:
        self.properties = dict(properties)
        self._report = properties.get("error_cb", lambda _: None)
        self._troubles: list[KafkaError] = []

    def call(self, api: str, request: Callable[[], T], seconds: float) -> T:
        """The answer. Raises KafkaException for an error that no repetition changes, or after so many seconds."""
        here, network = world(), world().network  # type: ignore[attr-defined]
        deadline, pause = here.now + seconds, BACKOFF
        while True:
            try:
                answer: T = network.send(api, request)
            except LostError:
                error = KafkaError(KafkaError._TRANSPORT, f"{api}: connection lost")  # noqa: SLF001
                self._troubles.append(error)
                error = KafkaError(KafkaError._TIMED_OUT, f"{api}: timed out", retriable=True)  # noqa: SLF001
            except BrokerError as refused:
                if refused.code in FENCING:
                    raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True)) from refused  # noqa: SLF001
                error = KafkaError(refused.code, str(refused), retriable=refused.code in REPEATED)
                if refused.code not in REPEATED:
                    raise KafkaException(error) from refused
            else:
                return answer
            if here.now >= deadline:
                raise KafkaException(error)
            here.tick(f"{api} again", pause)
            pause = min(2 * pause, LONGEST_BACKOFF)

    def poll(self, seconds: float = 0.0) -> Any:
        del seconds
        troubles, self._troubles = self._troubles, []
        for trouble in troubles:
            self._report(trouble)


class Producer(Client):
    def __init__(self, properties: Mapping[str, Any]) -> None:
        super().__init__(properties)
        self._name: str | None = properties.get("transactional.id")
        self._timeout = float(properties.get("transaction.timeout.ms", 60_000)) / 1000
        self._number, self._epoch = -1, -1
        self._queue: list[tuple[Place, Record]] = []
        self._sequences: dict[Place, int] = defaultdict(int)
        #: a batch that was sent, and whose outcome is not known
        self._sent: list[tuple[Place, int, list[Record]]] = []
        self._places: set[Place] = set()
        self._open = False
        #: the records of the open transaction
        self._written: dict[Place, list[Record]] = defaultdict(list)

    def init_transactions(self, seconds: float) -> None:
        request = lambda: _kafka().init_producer_id(self._name, self._timeout)  # noqa: E731
        self._number, self._epoch = self.call("INIT_PRODUCER_ID", request, seconds)

    def begin_transaction(self) -> None:
        if self._open:
            raise KafkaException(KafkaError(KafkaError._STATE, "a transaction is open"))  # noqa: SLF001
        self._open, self._places, self._written = True, set(), defaultdict(list)

    def produce(  # noqa: PLR0917
        self, topic: str, value: bytes | None = None, key: bytes | None = None, partition: int = 0,
        callback: object = None, on_delivery: object = None, timestamp: int = 0,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> None:  # fmt: skip
        del callback, on_delivery
        if self._name is not None and not self._open:
            raise KafkaException(KafkaError(KafkaError._STATE, "no transaction is open"))  # noqa: SLF001
        if len(self._queue) >= MOST_QUEUED:
            raise BufferError
        record = Record(key, value, headers, timestamp)
        self._queue.append(((topic, partition), record))
        self._written[topic, partition].append(record)

    def poll(self, seconds: float = 0.0) -> int:
        super().poll(seconds)
        if self._queue and world().random.random() < 0.5:
            self._send(5.0)
        return 0

    def flush(self, seconds: float = 30.0) -> int:
        if self._number < 0:
            self._number, self._epoch = self.call(
                "INIT_PRODUCER_ID", lambda: _kafka().init_producer_id(None, 0), seconds
            )
        self._send(seconds)
        return len(self._queue)

    def purge(self) -> None:
        self._queue, self._sent = [], []

    def _send(self, seconds: float) -> None:
        """Sends what is queued, in one batch for each topic partition."""
        queue, self._queue = self._queue, []
        by_place: dict[Place, list[Record]] = defaultdict(list)
        for place, record in queue:
            by_place[place].append(record)
        for place, records in by_place.items():
            self._sent.append((place, self._sequences[place], records))
            self._sequences[place] += len(records)
        while self._sent:
            place, sequence, records = self._sent[0]
            if self._name is not None and place not in self._places:
                self._add(seconds, place)
            batch = (self._name, self._number, self._epoch, place, sequence, records)
            self.call("PRODUCE", lambda batch=batch: _kafka().produce(*batch), seconds)  # type: ignore[misc]
            self._sent.pop(0)

    def _add(self, seconds: float, place: Place) -> None:
        name, epoch = str(self._name), self._epoch
        self.call("ADD_PARTITIONS_TO_TXN", lambda: _kafka().add(name, epoch, places=[place]), seconds)
        self._places.add(place)

    def send_offsets_to_transaction(self, offsets: Sequence[TopicPartition], group: str, seconds: float) -> None:
        name, epoch = str(self._name), self._epoch
        self.call("ADD_PARTITIONS_TO_TXN", lambda: _kafka().add(name, epoch, groups=[group]), seconds)
        for one in offsets:
            _, digest, *_ = *(one.metadata or "").split(" "), "", ""
            _kafka().attempts[name, one.offset - 1, digest].append(self._written)
            place, offset = (one.topic, one.partition), Offset(one.offset, one.metadata or "")
            request = lambda place=place, offset=offset: _kafka().commit_offset(name, epoch, group, place, offset)  # noqa: E731
            self.call("TXN_OFFSET_COMMIT", request, seconds)

    def commit_transaction(self, seconds: float) -> None:
        self._send(seconds)
        self._end(seconds, commit=True)

    def abort_transaction(self, seconds: float) -> None:
        if not self._open:
            raise KafkaException(KafkaError(KafkaError._STATE, "no transaction is open"))  # noqa: SLF001
        self.purge()
        self._end(seconds, commit=False)

    def _end(self, seconds: float, *, commit: bool) -> None:
        name, epoch = str(self._name), self._epoch
        self.call("END_TXN", lambda: _kafka().end_transaction(name, epoch, commit=commit), seconds)
        self._open = False


class Message:
    """As `confluent_kafka.Message`: a record, or with `code` an event."""

    def __init__(self, place: Place, offset: int, record: Record | None, code: int | None = None) -> None:
        self._place, self._offset, self._record, self._code = place, offset, record, code
        self._headers = record.headers if record else None

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._record.key if self._record else None

    def value(self) -> bytes | None:
        return self._record.value if self._record else None

    def headers(self) -> Any:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return 1, self._record.timestamp if self._record else 0

    def error(self) -> KafkaError | None:
        return None if self._code is None else KafkaError(self._code)

    def set_headers(self, headers: object) -> None:
        self._headers = headers  # type: ignore[assignment]


class Consumer(Client):
    """Of a group's offsets, of topic partitions that are assigned, or of the membership in a group."""

    count = 0

    def __init__(self, properties: Mapping[str, Any]) -> None:
        super().__init__(properties)
        Consumer.count += 1
        self._member = Consumer.count
        self._group: str = properties["group.id"]
        self._committed = properties.get("isolation.level", "read_committed") == "read_committed"
        self._eof = bool(properties.get("enable.partition.eof"))
        self._positions: dict[Place, int] = {}
        self._at_end: dict[Place, int] = {}
        self._ready: deque[Message] = deque()
        self._assigned: Callable[..., object] | None = None
        self._lost: Callable[..., object] | None = None
        self._has_lead = False

    # ---- offsets of the group ----------------------------------------------------------------------------------------

    def committed(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        def request() -> list[Offset | None]:
            found = ((one.topic, one.partition) for one in places)
            return [_kafka().committed_offset(self._group, place, stable=self._committed) for place in found]

        offsets = self.call("OFFSET_FETCH", request, timeout)
        return [
            TopicPartition(one.topic, one.partition, -1001 if found is None else found.offset,
                           metadata="" if found is None else found.metadata)
            for one, found in zip(places, offsets, strict=True)
        ]  # fmt: skip

    def consumer_group_metadata(self) -> str:
        return self._group

    def commit(self, offsets: list[TopicPartition], *, asynchronous: bool = True) -> None: ...

    # ---- records -----------------------------------------------------------------------------------------------------

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self._positions = {(one.topic, one.partition): max(0, one.offset) for one in places}
        self._at_end, self._ready = {}, deque()

    def unassign(self) -> None:
        self.assign([])

    def poll(self, seconds: float = 0.0) -> Message | None:
        super().poll()
        if self._assigned is not None:
            return self._take_part(seconds)
        here = world()
        deadline = here.now + seconds
        while not self._ready:
            self._fetch()
            if not self._ready:
                if here.now >= deadline:
                    return None
                here.tick("poll", min(0.1, max(0.001, deadline - here.now)))
        return self._ready.popleft()

    def consume(self, most: int, seconds: float = 0.0) -> list[Message]:
        del seconds
        count = min(most, len(self._ready))
        return [self._ready.popleft() for _ in range(count)]

    def _fetch(self) -> None:
        if not self._positions:
            return
        try:
            world().network.send("FETCH", self._take)  # type: ignore[attr-defined]
        except LostError:
            self._troubles.append(KafkaError(KafkaError._TRANSPORT))  # noqa: SLF001

    def _take(self) -> None:
        for place, start in self._positions.items():
            partition = _kafka().partitions[place]
            if start < partition.start:
                self._ready.append(Message(place, start, None, KafkaError._AUTO_OFFSET_RESET))  # noqa: SLF001
                continue
            hidden = STALE if world().now < _kafka().stale_until else 0
            records, end = partition.visible(start, committed=self._committed, hidden=hidden)
            records = records[:MOST_FETCHED]
            self._ready.extend(Message(place, offset, record) for offset, record in records)
            reached = records[-1][0] + 1 if len(records) == MOST_FETCHED else end
            self._positions[place] = max(start, reached)
            if self._eof and reached == end and self._at_end.get(place) != end:
                self._at_end[place] = end
                self._ready.append(Message(place, end, None, KafkaError._PARTITION_EOF))  # noqa: SLF001

    def get_watermark_offsets(
        self, place: TopicPartition, timeout: float = 10.0, *, cached: bool = False
    ) -> tuple[int, int]:
        partition = _kafka().partitions[place.topic, place.partition]
        offsets = lambda: (partition.start, partition.end)  # noqa: E731
        return offsets() if cached else self.call("LIST_OFFSETS", offsets, timeout)

    def list_topics(self, topic: str | None = None, timeout: float = 10.0) -> SimpleNamespace:
        del topic
        return self.call("METADATA", lambda: SimpleNamespace(cluster_id="simulated"), timeout)

    # ---- membership --------------------------------------------------------------------------------------------------

    def subscribe(self, topics: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        del topics, on_revoke
        self._assigned, self._lost = on_assign, on_lost

    def _take_part(self, seconds: float) -> None:
        here, process = world(), world().running.process
        here.tick("poll of the group", seconds)
        ask = lambda: _kafka().take_part(self._group, self._member, process)  # noqa: E731
        owner = self.call("JOIN_GROUP", ask, 10.0)
        place = [TopicPartition("sluice.ledger", 0)]
        if owner == self._member and not self._has_lead:
            self._has_lead = True
            assert self._assigned
            self._assigned(self, place)
        elif owner != self._member and self._has_lead:
            self._has_lead = False
            assert self._lost
            self._lost(self, place)

    def incremental_assign(self, places: object) -> None: ...

    def incremental_unassign(self, places: object) -> None: ...

    def pause(self, places: object) -> None: ...

    def close(self) -> None:
        _kafka().leave(self._group, self._member)


class AdminClient(Client):
    def list_topics(self, timeout: float) -> SimpleNamespace:
        return self.call("METADATA", lambda: SimpleNamespace(cluster_id="simulated"), timeout)

    def list_offsets(
        self, wanted: Mapping[TopicPartition, Any], isolation_level: object, request_timeout: float
    ) -> dict[TopicPartition, SimpleNamespace]:
        del isolation_level

        def request() -> dict[TopicPartition, int]:
            return {one: self._offset(_kafka(), (one.topic, one.partition), spec) for one, spec in wanted.items()}

        found = self.call("LIST_OFFSETS", request, request_timeout)
        return {
            one: SimpleNamespace(result=lambda offset=offset: SimpleNamespace(offset=offset))
            for one, offset in found.items()
        }

    @staticmethod
    def _offset(kafka: Kafka, place: Place, spec: Any) -> int:
        partition = kafka.partitions[place]
        return partition.start if type(spec).__name__ == "EarliestSpec" else partition.stable


class ColumnConsumer:
    """As `sluice.kafka.librdkafka.column_consumer.ColumnConsumer`, over the messages of a `Consumer`."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def assign(self, starts: Mapping[Place, int]) -> None:
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in starts.items()])

    def receive(self, seconds: float) -> list[Arrival]:
        first = self._consumer.poll(seconds)
        messages = [] if first is None else [first, *self._consumer.consume(MOST_FETCHED)]
        by_place = groupby(messages, lambda message: (message.topic(), message.partition()))
        return [self._arrival(place, [*some]) for place, some in by_place]

    @staticmethod
    def _arrival(place: Place, messages: list[Message]) -> Arrival:
        for message in messages:
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                raise KafkaException(error)
        reached = max(message.offset() + (message.error() is None) for message in messages)
        return Arrival(place, of_messages([one for one in messages if one.error() is None]), reached)

    def close(self) -> None: ...


def enqueue(producer: Producer, records: Records, start: int, stop: int) -> int:
    """As `sluice.kafka.librdkafka.producer_queue.enqueue`."""
    for number, row in enumerate(records.rows(start, stop), start):
        try:
            producer.produce(records.topic, *row)
        except BufferError:
            return number
    return stop

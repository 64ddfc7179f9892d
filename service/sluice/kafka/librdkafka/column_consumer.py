"""A consumer whose records come as Arrow columns, without a Python object for each; and the schema of these columns."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from operator import methodcaller
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from numba import types

from sluice.columns.arrow_types import HEADERS
from sluice.columns.kernel import kernel
from sluice.kafka.kafka_errors import HeaderNameError
from sluice.kafka.librdkafka.library import LIBRARY, address_of, client_pointer, function
from sluice.kafka.range_reader import END, MAX_CONSUMED, header_name_message, headers_of_each
from sluice.kafka.requests import REQUEST, bounded, discard

#: Timestamps are milliseconds since 1970.
SCHEMA = pa.schema([
    ("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS), ("offset", pa.int64()),
    ("timestamp", pa.int64()),
])  # fmt: skip

_key, _value, _offset, _timestamp = map(methodcaller, ("key", "value", "offset", "timestamp"))


#: what is wrong with a record that comes another way
PAST = "a record has come past the queue of its topic partition"
#: topic and topic partition
Place = tuple[str, int]
#: 64-bit words of a message of librdkafka (`rd_kafka_message_t`), and where its fields are
MESSAGE_WORDS = 9
TOPIC, VALUE, VALUE_SIZE, KEY, KEY_SIZE, OFFSET = 1, 3, 4, 5, 6, 7
#: 32-bit words of the error code and of the topic partition
ERROR, PARTITION = 0, 4
#: 64-bit words about a header: address and size of its name, and of its value
CELLS = 4
NAME, NAME_SIZE, CONTENT, CONTENT_SIZE = range(CELLS)


def of_messages(messages: Sequence[Message]) -> pa.RecordBatch:
    """The columns of records. Raises HeaderNameError for the name of a header that is not UTF-8."""
    columns = (
        [*map(_key, messages)],
        [*map(_value, messages)],
        headers_of_each(messages),
        [*map(_offset, messages)],
        [milliseconds for _, milliseconds in map(_timestamp, messages)],
    )
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def offsets_of(records: pa.RecordBatch) -> np.ndarray:
    return records.column("offset").to_numpy()  # type: ignore[no-any-return]


if TYPE_CHECKING:

    def _copy(target: int, source: int, size: int) -> int: ...
    def _length(text: int) -> int: ...
    def _timestamp_of(message: int, kind: int) -> int: ...
    def _headers_of(message: int, target: int) -> int: ...
    def _header_count(headers: int) -> int: ...
    def _header(headers: int, number: int, name: int, value: int, size: int) -> int: ...
    def _destroy(message: int) -> None: ...

else:
    _copy = types.ExternalFunction("memcpy", types.intp(types.intp, types.intp, types.intp))
    _length = types.ExternalFunction("strlen", types.intp(types.intp))
    _timestamp_of = function("rd_kafka_message_timestamp", types.int64, types.intp, types.intp)
    _headers_of = function("rd_kafka_message_headers", types.int32, types.intp, types.intp)
    _header_count = function("rd_kafka_header_cnt", types.intp, types.intp)
    _header = function("rd_kafka_header_get_all", types.int32, *[types.intp] * 5)
    _destroy = function("rd_kafka_message_destroy", types.void, types.intp)


class Arrival(NamedTuple):
    """The records of a topic partition that have come.

    records   consecutive records (column_consumer.py); there may be none
    reached   the offset up to which all records have come (exclusive). It may lie behind the last record: the markers
              of transactions have offsets, too
    """

    place: Place
    records: pa.RecordBatch
    reached: int


class Queues:
    """A queue of a client, and the queues of topic partitions, whose messages go on into it.

    They must be freed before the client: its end waits for them, without a bound.
    """

    def __init__(self, client: int) -> None:
        self._client = client
        #: held while librdkafka uses the queues: `free` may be called in another thread
        self._lock = Lock()
        self._queue: int | None = LIBRARY.rd_kafka_queue_new(client)
        self._of_places: dict[Place, int] = {}

    @contextmanager
    def opened(self) -> Iterator[int]:
        """The queue, which is not freed meanwhile. Raises KafkaException if it has been freed."""
        with self._lock:
            if self._queue is None:
                raise KafkaException(KafkaError(KafkaError._STATE, "the consumer is closed"))  # noqa: SLF001
            yield self._queue

    def forward(self, places: Iterable[Place] = ()) -> None:
        """Lets the messages of these topic partitions, and of all earlier ones, go on into the queue.

        For use within `opened`.
        """
        for place in places:
            if place not in self._of_places:
                topic, partition = place
                queue = LIBRARY.rd_kafka_queue_get_partition(self._client, topic.encode(), partition)
                self._of_places[place] = queue
        for of_place in self._of_places.values():
            LIBRARY.rd_kafka_queue_forward(of_place, self._queue)

    def free(self) -> None:
        """Frees all queues, with the messages in them."""
        with self._lock:
            for of_place in self._of_places.values():
                LIBRARY.rd_kafka_queue_forward(of_place, None)
                LIBRARY.rd_kafka_queue_destroy(of_place)
            LIBRARY.rd_kafka_queue_destroy(self._queue)
            self._queue = None


class ColumnConsumer:
    """A consumer of confluent-kafka that joins no group, whose records come into a queue of this class.

    The client's own events, such as its logs and the loss of all brokers, stay in the queue of the consumer: they call
    Python functions, which only `Consumer.poll` may do.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._queues = Queues(client_pointer(consumer))
        #: frees the queues, at the latest at the end of this object or of the process
        self._free = weakref.finalize(self, self._queues.free)
        self._messages = np.zeros(MAX_CONSUMED, np.int64)

    def assign(self, starts: Mapping[Place, int]) -> None:
        """Drops what was received, also by the client alone, and reads on from these offsets.

        Raises HungError if the client does not return; the caller must then close this object.
        """
        with self._queues.opened() as queue:
            bounded("leave the topic partitions", REQUEST, self._consumer.unassign)
            while count := self._take(queue, 0):
                _destroy_each(self._messages[:count])
            # The client does not forward a queue to the consumer's queue if it was forwarded here.
            self._queues.forward(starts)
            places = [TopicPartition(*place, offset) for place, offset in starts.items()]
            bounded("assign the topic partitions", REQUEST, partial(self._consumer.assign, places))
            self._queues.forward()  # the end of the assignment before has undone it

    def receive(self, seconds: float) -> list[Arrival]:
        """What the client has, cut where the topic partition changes; nothing if nothing came within `seconds`.

        Raises KafkaException if the client reports an error, if the consumer is closed, or if a record has come past
        the queue, and HeaderNameError for the name of a header that is not UTF-8. After an error, records may be lost
        until the next `assign`.
        """
        with self._queues.opened() as queue:
            event = self._consumer.poll(0)
            if event is not None:  # a record, if the client has made a topic partition anew, whose queue is another
                raise KafkaException(event.error() or KafkaError(KafkaError._STATE, PAST))  # noqa: SLF001
            count = self._take(queue, seconds)
            if not count:
                self._queues.forward()
                return []
            try:
                return [*_arrivals(self._messages[:count])]
            finally:
                _destroy_each(self._messages[:count])

    def _take(self, queue: int, seconds: float) -> int:
        """Waits for a message, and takes all that are there. Returns their number in `_messages`."""
        take, at = LIBRARY.rd_kafka_consume_batch_queue, self._messages.ctypes.data
        if take(queue, int(seconds * 1000), at, 1) < 1:
            return 0
        return 1 + max(0, int(take(queue, 0, at + self._messages.itemsize, MAX_CONSUMED - 1)))

    def close(self) -> None:
        """Frees the queues with what is in them, and closes the consumer. May be called more than once."""
        if self._free.alive:
            self._free()
            consumers = [self._consumer]
            del self._consumer
            discard(consumers)


def compile_kernels() -> None:
    """Compiles the kernels of this module, or loads them from the cache."""
    none, table, cells = np.zeros(0, np.int64), np.zeros((0, MESSAGE_WORDS), np.int64), np.zeros((0, CELLS), np.int64)
    _look(none, table, none, none, none)
    _look_at_headers(none, none, cells, none)
    _gather(none, np.zeros(1, np.int32), np.zeros(0, np.uint8))
    _destroy_each(none)


def _arrivals(messages: np.ndarray) -> Iterator[Arrival]:
    """The messages at these addresses, cut where the topic partition changes. Raises KafkaException for an error."""
    count = len(messages)
    table = np.zeros((count, MESSAGE_WORDS), np.int64)
    timestamps, headers = np.zeros(count, np.int64), np.zeros(count, np.int64)
    _look(messages, table, timestamps, headers, np.zeros(1, np.int64))
    words = table.view(np.int32)
    topics, partitions, errors = table[:, TOPIC], words[:, PARTITION], words[:, ERROR]
    changes = np.flatnonzero((np.diff(topics) != 0) | (np.diff(partitions) != 0)) + 1
    for start, stop in pairwise([0, *changes.tolist(), count]):
        place = LIBRARY.rd_kafka_topic_name(int(topics[start])).decode(), int(partitions[start])
        rows = np.arange(start, stop)
        is_record = errors[rows] == 0
        for event in rows[~is_record].tolist():
            if errors[event] != END:
                text = ctypes.string_at(int(table[event, VALUE]), int(table[event, VALUE_SIZE]))
                raise KafkaException(KafkaError(int(errors[event]), text.decode(errors="replace")))
        reached = int((table[rows, OFFSET] + is_record).max())
        records = rows[is_record]
        yield Arrival(
            place, _columns(place, messages[records], table[records], timestamps[records], headers[records]), reached
        )


def _columns(
    place: Place, messages: np.ndarray, table: np.ndarray, timestamps: np.ndarray, headers: np.ndarray
) -> pa.RecordBatch:
    """The columns of the records of a topic partition. `headers` has the number of headers of each."""
    offsets = table[:, OFFSET].copy()
    arrays = [
        _bytes(table[:, KEY], table[:, KEY_SIZE]),
        _bytes(table[:, VALUE], table[:, VALUE_SIZE]),
        _lists(place, offsets, messages, headers) if headers.any() else pa.nulls(len(table), HEADERS),
        pa.array(offsets),
        pa.array(timestamps),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _bytes(addresses: np.ndarray, sizes: np.ndarray) -> pa.BinaryArray:
    """The bytes at these addresses; null where the address is."""
    is_valid = addresses != 0
    ends = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(np.where(is_valid, sizes, 0), out=ends[1:])
    data = np.empty(ends[-1], np.uint8)
    _gather(np.ascontiguousarray(addresses), ends, data)
    nulls = None if is_valid.all() else pa.array(is_valid).buffers()[1]
    return pa.BinaryArray.from_buffers(pa.binary(), len(sizes), [nulls, pa.py_buffer(ends), pa.py_buffer(data)])


def _lists(place: Place, offsets: np.ndarray, messages: np.ndarray, counts: np.ndarray) -> pa.ListArray:
    """The headers of each message, of which it has so many; null without any."""
    ends = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=ends[1:])
    cells = np.zeros((int(ends[-1]), CELLS), np.int64)
    _look_at_headers(messages, counts, cells, np.zeros(1, np.int64))
    names = _bytes(cells[:, NAME], cells[:, NAME_SIZE])
    try:
        texts = names.cast(pa.string())
    except pa.ArrowInvalid as error:
        row = next(row for row, name in enumerate(names.to_pylist()) if not _is_text(name))
        offset = offsets[np.searchsorted(ends, row, "right") - 1]
        raise HeaderNameError(header_name_message(*place, offset)) from error
    contents = _bytes(cells[:, CONTENT], cells[:, CONTENT_SIZE])
    pairs = pa.StructArray.from_arrays([texts, contents], fields=[*HEADERS.value_type])
    return pa.ListArray.from_arrays(pa.array(ends), pairs, type=HEADERS, mask=pa.array(counts == 0))


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


@kernel
def _look(
    messages: np.ndarray, table: np.ndarray, timestamps: np.ndarray, headers: np.ndarray, room: np.ndarray
) -> None:
    """Copies the messages into the table, with their timestamps and the numbers of their headers beside it.

    `room` has room for a pointer.
    """
    for row in range(len(messages)):
        _copy(address_of(table) + 8 * MESSAGE_WORDS * row, messages[row], 8 * MESSAGE_WORDS)
        timestamps[row] = _timestamp_of(messages[row], address_of(room))
        if np.int32(table[row, 0]) == 0 and _headers_of(messages[row], address_of(room)) == 0:
            headers[row] = _header_count(room[0])


@kernel
def _look_at_headers(messages: np.ndarray, counts: np.ndarray, cells: np.ndarray, room: np.ndarray) -> None:
    """Fills `cells` with the addresses and the sizes of all headers (NAME, ...)."""
    row = 0
    for message in range(len(messages)):
        if counts[message] == 0:
            continue
        _headers_of(messages[message], address_of(room))
        for number in range(counts[message]):
            at = address_of(cells) + 8 * CELLS * row
            _header(room[0], number, at + 8 * NAME, at + 8 * CONTENT, at + 8 * CONTENT_SIZE)
            cells[row, NAME_SIZE] = _length(cells[row, NAME])
            row += 1


@kernel
def _gather(addresses: np.ndarray, ends: np.ndarray, data: np.ndarray) -> None:
    """Copies the bytes at each address to where they stand in an Arrow column with these offsets."""
    for row in range(len(addresses)):
        _copy(address_of(data) + ends[row], addresses[row], ends[row + 1] - ends[row])


@kernel
def _destroy_each(messages: np.ndarray) -> None:
    for row in range(len(messages)):
        _destroy(messages[row])

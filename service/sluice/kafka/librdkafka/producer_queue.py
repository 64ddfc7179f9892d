"""Puts records into the queue of a producer, from Arrow columns, without a Python object for each."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, Producer
from numba import types

from sluice.columns.kernel import kernel
from sluice.kafka.librdkafka.library import address_of, client_pointer, function, raised
from sluice.kafka.records import Records

#: 64-bit words that `_enqueue` has about a record
CELLS = 8
#: the arguments of a record (`rd_kafka_vtype_t`) in the order in which they are passed; HEADERS only if there are any
TOPIC, PARTITION, VALUE, KEY, MESSAGE_FLAGS, TIMESTAMP, HEADERS = 1, 3, 4, 5, 7, 8, 10
ARGUMENTS = (TOPIC, MESSAGE_FLAGS, PARTITION, VALUE, KEY, TIMESTAMP, HEADERS)
#: 64-bit words of an argument (`rd_kafka_vu_t`): its type, and 64 bytes for what it has
ARGUMENT_WORDS = 9
#: `RD_KAFKA_MSG_F_COPY`: the client copies key and value
COPY = 2

if TYPE_CHECKING:

    def _produce(client: int, arguments: int, count: int) -> int: ...
    def _headers_new(count: int) -> int: ...
    def _header_add(headers: int, name: int, name_size: int, value: int, value_size: int) -> int: ...
    def _headers_destroy(headers: int) -> None: ...

else:
    _produce = function("rd_kafka_produceva", types.intp, types.intp, types.intp, types.intp)
    _headers_new = function("rd_kafka_headers_new", types.intp, types.intp)
    _header_add = function("rd_kafka_header_add", types.int32, *[types.intp] * 5)
    _headers_destroy = function("rd_kafka_headers_destroy", types.void, types.intp)


#: the address of no bytes. An empty value must have an address, as null stands for none
_NOTHING = ctypes.create_string_buffer(8)
NOTHING = ctypes.addressof(_NOTHING)


def enqueue(producer: Producer, records: Records, start: int, stop: int) -> int:
    """Puts the records from row `start` to row `stop` (exclusive) into the queue. Returns the first row that is not in
    it: less than `stop` if the queue is full.

    Raises KafkaException as `Producer.produce` does.
    """
    key, value, partition, timestamp, headers = (column for column in records.columns.slice(start, stop - start))
    cells = np.zeros((stop - start, CELLS), np.int64)
    _fill(cells[:, :2], value)
    _fill(cells[:, 2:4], key)
    cells[:, 4], cells[:, 5] = partition, timestamp
    of_headers = np.zeros((0, 4), np.int64)
    if headers.null_count < len(headers):
        ends = headers.offsets.to_numpy()
        cells[:, 6], cells[:, 7] = ends[:-1], ends[1:]
        of_headers = np.zeros((len(headers.keys), 4), np.int64)
        _fill(of_headers[:, :2], headers.keys)
        _fill(of_headers[:, 2:], headers.items)
    arguments = np.zeros((len(ARGUMENTS), ARGUMENT_WORDS), np.int64)
    topic = ctypes.create_string_buffer(records.topic.encode())
    arguments[:, 0] = ARGUMENTS
    arguments[:2, 1] = ctypes.addressof(topic), COPY
    row, error = _enqueue(client_pointer(producer), arguments, cells, of_headers)
    if error:
        exception = raised(error)
        if exception.args[0].code() != KafkaError._QUEUE_FULL:  # noqa: SLF001
            raise exception
    return start + row


def compile_kernel() -> None:
    """Compiles the kernel of `enqueue`, or loads it from the cache."""
    nothing = np.zeros((0, CELLS), np.int64)
    _enqueue(0, np.zeros((len(ARGUMENTS), ARGUMENT_WORDS), np.int64), nothing, nothing)


def _fill(cells: np.ndarray, column: pa.Array) -> None:
    """Writes the address and the size of the bytes of each row; zeros for null."""
    _, ends, data = column.buffers()
    if ends is None:  # no rows
        return
    at = np.frombuffer(ends, np.int32, len(column) + 1, 4 * column.offset)
    cells[:, 0] = at[:-1]
    cells[:, 0] += data.address if data is not None and data.size else NOTHING
    cells[:, 1] = np.diff(at)
    if column.null_count:
        cells[column.is_null().to_numpy(zero_copy_only=False)] = 0


@kernel
def _enqueue(client: int, arguments: np.ndarray, cells: np.ndarray, headers: np.ndarray) -> tuple[int, int]:
    """Returns the number of rows that are in the queue, and the error (`rd_kafka_error_t *`), 0 without any.

    arguments   the arguments of a record, with its topic and its flags
    cells       by record: address and size of the value and of the key, topic partition, timestamp, and the rows of its
                headers: the first, and the end (exclusive)
    headers     by header: address and size of its name and of its value
    """
    for row in range(len(cells)):
        cell = cells[row]
        arguments[2, 1] = cell[4]
        arguments[3, 1], arguments[3, 2] = cell[0], cell[1]
        arguments[4, 1], arguments[4, 2] = cell[2], cell[3]
        arguments[5, 1] = cell[5]
        header_list = 0
        if cell[6] < cell[7]:
            header_list = _headers_new(cell[7] - cell[6])
            for header in range(cell[6], cell[7]):
                _header_add(header_list, headers[header, 0], headers[header, 1], headers[header, 2], headers[header, 3])
            arguments[6, 1] = header_list
        error = _produce(client, address_of(arguments), len(arguments) - (header_list == 0))
        if error != 0:
            if header_list != 0:
                _headers_destroy(header_list)
            return row, error
    return len(cells), 0

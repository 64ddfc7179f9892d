"""The functions of librdkafka, for the client objects of confluent-kafka.

confluent-kafka makes a Python object of each record that it reads or writes, which takes longer than all that
librdkafka does for the record. The modules of this folder therefore call librdkafka with columns of records. All else
stays with confluent-kafka: properties, logs, errors, transactions, assignments.
"""

# numba has no type hints for its own objects.
# ruff: noqa: ANN401

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, __version__, cimpl
from numba import types

from sluice.columns.kernel import inlined

#: the extension module of confluent-kafka, through which the functions of the librdkafka that it uses are found
LIBRARY = ctypes.CDLL(cimpl.__file__)
LIBRARY.rd_kafka_opaque.argtypes = [ctypes.c_void_p]
LIBRARY.rd_kafka_opaque.restype = ctypes.c_void_p
LIBRARY.rd_kafka_topic_name.argtypes = [ctypes.c_void_p]
LIBRARY.rd_kafka_topic_name.restype = ctypes.c_char_p
LIBRARY.rd_kafka_queue_new.argtypes = [ctypes.c_void_p]
LIBRARY.rd_kafka_queue_new.restype = ctypes.c_void_p
LIBRARY.rd_kafka_queue_get_partition.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32]
LIBRARY.rd_kafka_queue_get_partition.restype = ctypes.c_void_p
LIBRARY.rd_kafka_queue_forward.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
LIBRARY.rd_kafka_queue_forward.restype = None
LIBRARY.rd_kafka_queue_destroy.argtypes = [ctypes.c_void_p]
LIBRARY.rd_kafka_queue_destroy.restype = None
LIBRARY.rd_kafka_consume_batch_queue.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
LIBRARY.rd_kafka_consume_batch_queue.restype = ctypes.c_ssize_t
LIBRARY.rd_kafka_error_code.argtypes = [ctypes.c_void_p]
LIBRARY.rd_kafka_error_string.argtypes = [ctypes.c_void_p]
LIBRARY.rd_kafka_error_string.restype = ctypes.c_char_p
LIBRARY.rd_kafka_error_destroy.argtypes = [ctypes.c_void_p]
LIBRARY.rd_kafka_error_destroy.restype = None


def function(name: str, result: Any, *arguments: Any) -> Any:
    """A function of librdkafka for kernels. Its pointers are `types.intp`."""
    llvm.add_symbol(name, ctypes.cast(getattr(LIBRARY, name), ctypes.c_void_p).value)
    return types.ExternalFunction(name, result(*arguments))


def client_pointer(client: Producer | Consumer) -> int:
    """The client of librdkafka (`rd_kafka_t *`) in a client of confluent-kafka, as long as that exists.

    It is the first field of the object, and has the object as its opaque. Raises TypeError if it has not.
    """
    pointer = ctypes.c_void_p.from_address(id(client) + object.__basicsize__).value
    if pointer is None or LIBRARY.rd_kafka_opaque(pointer) != id(client):
        message = f"cannot find the client of librdkafka in a {type(client).__name__} of confluent-kafka {__version__}"
        raise TypeError(message)
    return pointer


def raised(error: int) -> KafkaException:
    """The exception for an error (`rd_kafka_error_t *`), which is freed."""
    try:
        text = LIBRARY.rd_kafka_error_string(error).decode(errors="replace")
        return KafkaException(KafkaError(LIBRARY.rd_kafka_error_code(error), text))
    finally:
        LIBRARY.rd_kafka_error_destroy(error)


@inlined
def address_of(array: np.ndarray) -> int:
    """The address of the first element, in a kernel."""
    return np.int64(array.ctypes.data)  # type: ignore[return-value]

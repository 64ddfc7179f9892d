"""The ordinal of a record: its position in the order of its batch, as port, topic partition and number in one int64.

Compared as integers, ordinals sort by port, then by topic partition, then by number.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

#: one ordinal, or an array of ordinals
P = TypeVar("P", int, np.ndarray)

#: the lowest bits of the port and of the topic partition in an ordinal. The bits below contain the number: NUMBERS
#: times the distance of the offset from that of the topic partition's first record in the batch. 32 bits suffice,
#: because Spark limits the offsets that a batch reads (`max_records_per_batch`)
PORT, TOPIC_PARTITION = 56, 32

#: how many numbers each record has: for a window mark before the record, for the record itself, for a window mark
#: behind it, and for a final mark behind it
NUMBERS = 4
BEFORE, ITSELF, BEHIND, END = range(NUMBERS)

#: the ordinal of an item that a timer made; it sorts before all records
NO_ORDINAL = -1


def ordinal(port: int, topic_partition: int) -> int:
    """The ordinal of the first record of a topic partition. Later records have larger ordinals."""
    return port << PORT | topic_partition << TOPIC_PARTITION


def first_of(ordinal: P) -> P:
    """The ordinal of the first record of the topic partition of `ordinal`."""
    return ordinal >> TOPIC_PARTITION << TOPIC_PARTITION


def port_of(ordinal: P) -> P:
    return ordinal >> PORT


def topic_partition_of(ordinal: P) -> P:
    return ordinal >> TOPIC_PARTITION & (1 << PORT - TOPIC_PARTITION) - 1

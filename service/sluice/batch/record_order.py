"""The place of a record in the order of its batch: port, topic partition and number, packed into one int64.

Places as integers sort by port, then by topic partition, then by number.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

#: one place, or an array of places
P = TypeVar("P", int, np.ndarray)

#: the lowest bits of the port and of the topic partition in a place. The bits below contain the number: NUMBERS times
#: the distance of the offset from that of the topic partition's first record in the batch. 32 bits suffice, because
#: Spark limits the offsets that a batch reads (`max_records_per_batch`)
PORT, TOPIC_PARTITION = 56, 32

#: how many numbers each record has: for a window mark before the record, for the record itself, for a window mark
#: behind it, and for a final mark behind it
NUMBERS = 4
BEFORE, ITSELF, BEHIND, END = range(NUMBERS)

#: the place of an item that a timer made; it sorts before all records
NO_PLACE = -1


def place(port: int, topic_partition: int) -> int:
    """The place of the first record of a topic partition. Later records have larger places."""
    return port << PORT | topic_partition << TOPIC_PARTITION


def first_of(place: P) -> P:
    """The place of the first record of the topic partition of `place`."""
    return place >> TOPIC_PARTITION << TOPIC_PARTITION


def port_of(place: P) -> P:
    return place >> PORT


def topic_partition_of(place: P) -> P:
    return place >> TOPIC_PARTITION & (1 << PORT - TOPIC_PARTITION) - 1

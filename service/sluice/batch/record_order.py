"""The place of a record among all of its batch: port, topic partition and number, as one int64 that sorts so."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

#: a place, or many
P = TypeVar("P", int, np.ndarray)

#: the number is NUMBERS times the distance of the offset from that of the topic partition's first record in the batch:
#: 32 bits are plenty, as Spark bounds what it reads by offsets (`max_records_per_batch`)
PORT, TOPIC_PARTITION = 56, 32

#: a record has so many numbers: for the window mark before it, for itself, for a window mark and for the final mark
#: behind it
NUMBERS = 4
BEFORE, ITSELF, BEHIND, END = range(NUMBERS)

#: sorts before each record: what a timer made
NO_PLACE = -1


def place(port: int, topic_partition: int) -> int:
    """The place of the first record of a topic partition; those of the next ones follow."""
    return port << PORT | topic_partition << TOPIC_PARTITION


def first_of(place: P) -> P:
    """The place of the first record of its topic partition."""
    return place >> TOPIC_PARTITION << TOPIC_PARTITION


def port_of(place: P) -> P:
    return place >> PORT


def topic_partition_of(place: P) -> P:
    return place >> TOPIC_PARTITION & (1 << PORT - TOPIC_PARTITION) - 1

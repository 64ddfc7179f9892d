"""Labels of buckets: the ints that Spark's hash partitioning sends to the shuffle partition of the bucket's number."""

from __future__ import annotations

from itertools import count

SEED = 42  # of Spark's hash expression
MASK = 0xFFFFFFFF


def labels(buckets: int) -> list[int]:
    """One label per bucket, in order of their shuffle partitions, each alone in its own.

    Of the labels 0 and 1, for instance, Spark's hash puts both into one of two partitions.
    """
    found: dict[int, int] = {}
    for label in count():
        found.setdefault(hash_int(label) % buckets, label)
        if len(found) == buckets:
            return [found[bucket] for bucket in range(buckets)]
    raise AssertionError


def hash_int(value: int) -> int:
    """Spark's `hash(int)`: murmur3 of four bytes. As `%` is never negative here, its sign needs no care."""
    mixed = _rotate(value * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
    state = (_rotate(SEED ^ mixed, 13) * 5 + 0xE6546B64) & MASK
    state ^= 4
    state = (state ^ state >> 16) * 0x85EBCA6B & MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & MASK

"""Labels of buckets: integers that Spark's hash partitioning sends to the shuffle partition of the bucket's number."""

from __future__ import annotations

from itertools import count

SEED = 42  # the seed of Spark's hash expression
MASK = 0xFFFFFFFF


def labels(buckets: int) -> list[int]:
    """One label for each bucket, in order of the buckets.

    The number of a bucket cannot be its label: with two buckets, for instance, Spark's hash sends both 0 and 1 to the
    same shuffle partition.
    """
    found: dict[int, int] = {}
    for label in count():
        found.setdefault(hash_int(label) % buckets, label)
        if len(found) == buckets:
            return [found[bucket] for bucket in range(buckets)]
    raise AssertionError


def hash_int(value: int) -> int:
    """Spark's `hash(int)`: murmur3 of four bytes, as a signed 32-bit number.

    Spark's `pmod` of the hash is Python's `%`: neither is negative if the divisor is positive.
    """
    mixed = _rotate(value * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
    state = (_rotate(SEED ^ mixed, 13) * 5 + 0xE6546B64) & MASK
    state ^= 4
    state = (state ^ state >> 16) * 0x85EBCA6B & MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & MASK

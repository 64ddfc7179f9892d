"""Sizes at which the engine changes how it stores and computes. The outputs do not depend on them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The sizes for one operator. The defaults were chosen for speed; tests use small ones.

    uncompacted   tables with at most this many entries are never compacted
    min_block, max_block, block   the number of tuples in a block (blocks.py), a power of two: the minimum, the maximum,
                  and the size for windows whose number of tuples has no bound. Larger blocks are faster, but waste more
                  room in the last block of each window
    events        the most window events that are written before they are read, so that they are still in the CPU's
                  cache then
    steps         the steps of a combine plan (combine_plan.py) that are executed together: few enough that all
                  summaries that they use stay in the CPU's cache
    listed        the tuples that results list before they are computed, which bounds the memory of a batch
    candidates    the most pairs of a join that are evaluated at a time, which bounds the memory for pairs that do not
                  match
    """

    uncompacted: int = 4096
    min_block: int = 8
    max_block: int = 32
    block: int = 16
    events: int = 16_384
    steps: int = 2048
    listed: int = 1 << 20
    candidates: int = 2_000_000


LIMITS = EngineLimits()

"""Groups as interned pairs of a window partition and the values of `group_by`.

The code of a pair in the interner is the number of the group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.key_bytes import partition_codes
from sluice.columns.state_tables import intern_pairs, moved_to, pairs_of


class Grouped(Protocol):
    """A state whose groups are pairs.

    `groups` interns the values of `group_by`; `pairs` interns (partition, code of these values).
    """

    groups: Interner
    pairs: Interner
    group_records: np.ndarray

    @property
    def rows(self) -> Mapping[str, int]: ...


def groups_of(state: Grouped, by: Sequence[int], values: pa.RecordBatch, partition: np.ndarray) -> np.ndarray:
    """The number of each tuple's group (A7). `by` has the places of `group_by` in `values`; without it, the group is
    the partition.
    """
    return intern_pairs(state.pairs, partition, partition_codes(values, by, state.groups)) if by else partition


def rename_pairs(state: Grouped, kept: np.ndarray, partitions: np.ndarray) -> np.ndarray:
    """Interns the kept pairs anew with the new numbers of their partitions. Returns the new number of each group."""
    pairs = pairs_of(state.pairs)[kept]
    groups = state.groups.keep(pairs[:, 1])
    renamed = state.pairs.keep(np.zeros(0, np.int64))
    renamed[kept] = intern_pairs(state.pairs, partitions[pairs[:, 0]], groups[pairs[:, 1]])
    return renamed


def take_groups(target: Grouped, state: Grouped, partitions: np.ndarray, used: np.ndarray | None = None) -> np.ndarray:
    """Copies the groups of `state` that are used and whose partition moves into `target`.

    `partitions` has the new number of each partition, NIL where it does not move. `used` says which groups are used;
    None: the groups that hold tuples. Returns the same map as `partitions` for groups.
    """
    pairs, count = pairs_of(state.pairs), state.rows["group"]
    used = state.group_records["size"] > 0 if used is None else used
    holding = np.flatnonzero((partitions[pairs[:, 0]] != NIL) & used[: len(pairs)])
    partition, name = pairs[holding].T
    groups = target.groups.intern_arrow(state.groups.take(name))
    return moved_to(holding, intern_pairs(target.pairs, partitions[partition], groups), count)

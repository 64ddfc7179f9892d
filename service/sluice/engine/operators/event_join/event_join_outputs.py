"""The outputs of a join over event time, from the log of its kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.kernel import kernel
from sluice.columns.ordering import canonical
from sluice.engine.operators.event_join.event_join_records import ENTRY, LEFT, NOTHING, RIGHT
from sluice.engine.stream.items import MADE, TUPLE, WATERMARK, WINDOW, Items


@kernel
def settle(left: np.ndarray, right: np.ndarray, log: np.ndarray, holds: np.ndarray, kept: np.ndarray) -> None:
    """Finds out which entries of the log become outputs. `left` and `right` are the stored tuples, `holds` has the
    condition of each candidate pair in order; one entry stands for all pairs.

    A pair becomes an output if its condition holds, and its tuples have matched then. A tuple that leaves becomes one
    if it has never matched (I5).
    """
    pair, step = 0, int(len(holds) > 1)
    for k in range(len(log)):
        a, b = log[k].left, log[k].right
        if a != NOTHING and b != NOTHING:  # noqa: PLR1714
            kept[k] = holds[pair]
            pair += step
            if kept[k]:
                left[a].matched = 1
                right[b].matched = 1
        elif a == b:
            kept[k] = True
        else:
            kept[k] = not (left[a].matched if b == NOTHING else right[b].matched)


def in_order(log: np.ndarray, nodes: Sequence[np.ndarray], arrivals: np.ndarray, keys: Interner) -> np.ndarray:
    """The log with the entries of each watermark in order of event time, then of key, left before right, then in order
    of arrival (I6, U6). So their order does not depend on buckets. `nodes` has the stored tuples of each side.
    """
    by_watermark = (arrivals["kind"][log["cause"]] == WATERMARK) & ~_marks(log)
    rows = np.flatnonzero(by_watermark)
    if len(rows) <= 1:
        return log
    some = log[rows]
    of_right = some["left"] == NOTHING
    left, right = nodes[LEFT][some["left"]], nodes[RIGHT][some["right"]]
    time, number = (np.where(of_right, right[name], left[name]) for name in ("time", "number"))
    used, key = keys.numbered(some["key"])
    rank = np.zeros(len(used) + 1, np.int64)
    rank[canonical(keys.take(used))] = np.arange(len(used))
    made = log.copy()
    made[rows] = some[np.lexsort((number, of_right, rank[key], time, some["cause"]))]
    return made


@dataclass(frozen=True, slots=True)
class EventJoinOutputs:
    """The outputs on one port: the columns of `Items`, and the slots of the pair behind each tuple."""

    event: np.ndarray
    at: np.ndarray
    kind: np.ndarray
    key: np.ndarray
    keys: pa.BinaryArray
    watermark: np.ndarray
    left: np.ndarray
    right: np.ndarray

    @classmethod
    def of(
        cls, log: np.ndarray, arrivals: np.ndarray, nodes: Sequence[np.ndarray], keys: Interner, *, marked: bool
    ) -> EventJoinOutputs:
        """`log` has the entries of this port that become outputs. `marked`: a window mark follows the outputs of each
        tuple (I6).
        """
        cause = log["cause"]
        from_tuple = arrivals["kind"][cause] == TUPLE
        is_mark = _marks(log)
        mark_after = from_tuple & np.append(np.diff(cause) != 0, True) if marked else np.zeros(len(log), np.bool_)
        row = np.repeat(np.arange(len(log)), 1 + mark_after)
        is_window = np.zeros(len(row), np.bool_)
        is_window[1:] = row[1:] == row[:-1]
        kind = np.where(is_window, WINDOW, np.where(is_mark[row], WATERMARK, TUPLE)).astype(np.int8)
        own = np.where(log["left"] != NOTHING, nodes[LEFT]["time"][log["left"]], nodes[RIGHT]["time"][log["right"]])
        watermark = np.where(is_mark, arrivals["watermark"][cause], np.where(from_tuple, 0, own))
        key_of = np.where(is_mark, NIL, log["key"])[row]
        used, key = keys.numbered(key_of)
        rows = log[~is_mark]
        return cls(
            arrivals["event"][cause][row], arrivals["at"][cause][row], kind, key, keys.take(used),
            np.where(is_window, 0, watermark[row]), rows["left"], rows["right"],
        )  # fmt: skip

    def items(self, tuples: pa.RecordBatch) -> Items:
        source = np.full(len(self.event), MADE, np.int32)
        return Items(self.event, self.at, self.kind, source, self.key, self.keys, tuples, self.watermark)


def per_port(
    log: np.ndarray, arrivals: np.ndarray, nodes: Sequence[np.ndarray], keys: Interner, apart: Sequence[bool]
) -> Iterator[EventJoinOutputs]:
    """The outputs of the joint port, then those of each side's own port, left first. `apart` says which sides have one
    for their tuples without a partner; these ports have no window marks (P7).
    """
    is_mark = _marks(log)
    alone = [(log["right"] == NOTHING) & ~is_mark, (log["left"] == NOTHING) & ~is_mark]
    joint = np.ones(len(log), np.bool_)
    for own, is_apart in zip(alone, apart, strict=True):
        joint &= ~own | (not is_apart)
    yield EventJoinOutputs.of(log[joint], arrivals, nodes, keys, marked=True)
    for own in alone:
        yield EventJoinOutputs.of(log[own | is_mark], arrivals, nodes, keys, marked=False)


def _marks(log: np.ndarray) -> np.ndarray:
    """Which entries are watermarks."""
    found: np.ndarray = (log["left"] == NOTHING) & (log["right"] == NOTHING)
    return found


def empty_log(count: int) -> np.ndarray:
    return np.empty(count, ENTRY)

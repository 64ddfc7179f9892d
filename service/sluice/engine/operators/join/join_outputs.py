"""The outputs of a join: expressions over pairs of stored tuples, and the items of each output stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.interner import Interner
from sluice.columns.key_bytes import canonical
from sluice.engine.operators.join import join_kernel
from sluice.engine.operators.join.join_input import JoinInput
from sluice.engine.operators.join.join_kernel import NOTHING
from sluice.engine.operators.join.join_state import SIDES
from sluice.engine.stream.emit import MadeItems
from sluice.engine.stream.expression_eval import computed, evaluate
from sluice.engine.stream.items import TUPLE, WATERMARK, Items
from sluice.engine.stream.rejected_tuples import complete
from sluice.model.expressions import Attribute, Expression, walk
from sluice.model.spec import Join

ALL = np.ones(1, np.bool_)


class StoredPairs(NamedTuple):
    """The stored words of the tuples of both sides, left first, and the interner of their texts."""

    words: tuple[np.ndarray, np.ndarray]
    strings: Interner


@dataclass(frozen=True, slots=True)
class PairItems(MadeItems):
    """The items on one port, and the slots of the pair behind each tuple."""

    left: np.ndarray
    right: np.ndarray


class PairExpressions:
    """Evaluates the expressions of a join over pairs of stored tuples."""

    def __init__(self, spec: Join, ports: tuple[JoinInput, JoinInput]) -> None:
        self._spec, self._ports = spec, ports

    def holds(self, stored: StoredPairs, log: np.ndarray) -> np.ndarray:
        """Whether each candidate pair in the log matches (J3). A condition that is null does not match (NU30).

        Gives ALL, an array of one True, if every candidate matches.
        """
        if self._spec.match is None:
            return ALL
        pairs = log[(log["left"] != NOTHING) & (log["right"] != NOTHING)]
        if not len(pairs):
            return ALL
        columns = self._columns(stored, [self._spec.match], pairs["left"], pairs["right"])
        holds = pc.fill_null(evaluate(self._spec.match, columns), False)  # noqa: FBT003
        return holds.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]

    def outputs(self, stored: StoredPairs, pairs: Sequence[PairItems]) -> tuple[dict[str, Items], list[Items | None]]:
        """The items of each output stream, and the rejected pairs, for which an expression has no value.

        `pairs` has the pairs of the joint port, then the unmatched tuples of the left side and of the right side.
        """
        joint, *alone = pairs
        written = [(output, joint) for output in self._spec.matched]
        written += [(port.spec.unmatched, m) for port, m in zip(self._ports, alone, strict=True) if port.spec.unmatched]
        outputs, rejected = {}, []
        for output, slot_pairs in written:
            expressions = [e for _, e in output.attributes]
            columns = self._columns(stored, expressions, slot_pairs.left, slot_pairs.right)
            schema = arrow_schema(tuple((name, e.type) for name, e in output.attributes))
            values = computed(expressions, columns, schema)
            items = slot_pairs.around(values.columns)
            outputs[output.stream], _, bad = complete(items, values, self._spec.name, output.stream, expressions)
            rejected.append(bad)
        return outputs, rejected

    def _columns(
        self, stored: StoredPairs, expressions: list[Expression], left: np.ndarray, right: np.ndarray
    ) -> pa.RecordBatch:
        """The attributes that the expressions in `expressions` use, for pairs of slots `left` and `right`."""
        named = dict.fromkeys(a for e in expressions for a in walk(e) if isinstance(a, Attribute))
        columns = {"#": pa.array(np.zeros(len(left), np.int8))}
        for name, side in ((a.name, SIDES.index(str(a.port))) for a in named):
            port, rows = self._ports[side], (left, right)[side]
            place = port.names.index(name)
            columns[f"{SIDES[side]}.{name}"] = port.columns.column(place, stored.words[side], stored.strings, rows)
        return pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True, slots=True)
class JoinOutputs(PairItems):
    """The outputs on one port. `of` takes the watermarks in the order of their items."""

    @classmethod
    def of(
        cls, pieces: list[join_kernel.Port], keys: pa.BinaryArray, watermarks: np.ndarray, *, in_key_order: bool
    ) -> JoinOutputs:
        items = [piece.used[join_kernel.ITEMS] for piece in pieces]
        rows = [piece.used[join_kernel.ROWS] for piece in pieces]
        event, at, kind, key = (chained(pieces, name, items) for name in ("event", "at", "kind", "key"))
        left, right = (chained(pieces, name, rows) for name in ("left", "right"))
        watermark = np.zeros(len(event), np.int64)
        watermark[kind == WATERMARK] = watermarks
        outputs = cls(event, at, kind, key, keys, watermark, left, right)
        tied = any(piece.used[join_kernel.TIED] for piece in pieces) or len(pieces) > 1
        return outputs.in_key_order() if tied and in_key_order else outputs

    def in_key_order(self) -> JoinOutputs:
        """Sorts the outputs of one event, or of one point in time, by key, so that their order does not depend on
        buckets. Watermarks keep their positions, and no tuple moves across one.
        """
        is_watermark = self.kind == WATERMARK
        new = (np.diff(self.event) != 0) | (np.diff(self.at) != 0) | is_watermark[1:] | is_watermark[:-1]
        group = np.concatenate([[0], np.cumsum(new)])
        mixed = np.zeros(group[-1] + 1, np.bool_)
        mixed[group[1:][~new & (np.diff(self.key) != 0)]] = True
        if not mixed.any():
            return self
        places = np.flatnonzero(mixed[group])
        rank = np.empty(len(self.keys), np.int64)
        rank[canonical(self.keys)] = np.arange(len(self.keys))
        order = np.arange(len(self.event))
        order[places] = places[np.lexsort((rank[self.key[places]], group[places]))]
        is_tuple = self.kind == TUPLE
        rows = (np.cumsum(is_tuple) - 1)[order][is_tuple[order]]
        event, at, kind, key = (column[order] for column in (self.event, self.at, self.kind, self.key))
        return JoinOutputs(event, at, kind, key, self.keys, self.watermark, self.left[rows], self.right[rows])


def empty_port(rows: int, marks: int) -> join_kernel.Port:
    """An empty port with room for this number of rows, and of marks beside them."""
    size = rows + marks
    return join_kernel.Port(
        np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int8), np.empty(size, np.int32),
        np.empty(rows, np.int32), np.empty(rows, np.int32), np.array([0, 0, 0, -2]),
    )  # fmt: skip


def chained(pieces: Sequence[object], name: str, lengths: list[int]) -> np.ndarray:
    """The column `name` of all pieces, each of which is used up to its length."""
    columns = [getattr(piece, name)[:length] for piece, length in zip(pieces, lengths, strict=True)]
    return columns[0] if len(columns) == 1 else np.concatenate(columns)

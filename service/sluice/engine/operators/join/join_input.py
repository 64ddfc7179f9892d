"""The inputs of a join: what it reads of the tuples of each side, and the keys of its equalities."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import array_of
from sluice.columns.encoding import WordColumns
from sluice.columns.interner import Interner
from sluice.columns.intrusive_list import NIL
from sluice.columns.key_bytes import key_codes
from sluice.engine.operators.join.join_kernel import NOTHING, RIGHT
from sluice.engine.operators.join.join_state import SIDES
from sluice.engine.stream.items import CLEAR, FINAL, TUPLE, WATERMARK, Items
from sluice.engine.windows import policies
from sluice.model.expressions import Attribute, Call, Expression, certain, walk
from sluice.model.spec import DELETES, Join, Side
from sluice.model.types import BOOLEAN, Schema, Value, optional_of


@dataclass(frozen=True, slots=True)
class JoinInput:
    """The compiled form of one side of a join.

    reads         the distinct expressions over the side's tuples: those that are stored as words, then keys
    names         for each stored word the name of its attribute; "" for the size of a delta, which has no name
    columns, default         the stored columns, and their values in the default tuple
    equality, partition_by   indices into `reads`
    deletes       the index in `reads` of the attribute that says whether a tuple deletes a row of a table; None: the
                  side is no table
    """

    spec: Side
    clause: policies.KernelClause
    reads: tuple[Expression, ...]
    names: tuple[str, ...]
    columns: WordColumns
    default: tuple[pa.Array, ...]
    equality: tuple[int, ...]
    partition_by: tuple[int, ...]
    deletes: int | None

    @classmethod
    def of(cls, join: Join, port: int, schema: Schema) -> JoinInput:
        side = (join.left, join.right)[port]
        read = {
            a.name for e in _over_pairs(join) for a in walk(e) if isinstance(a, Attribute) and a.port == SIDES[port]
        }
        values = dict(zip((name for name, _ in schema if name != DELETES), side.default, strict=True))
        attributes = [
            Attribute(name, optional_of(kind) if values.get(name, kind.empty) is None else kind)
            for name, kind in schema
            if name in read or name in side.window.attributes
        ]
        # not of an attribute that is kept once more as a size of the window, without null
        defaults: dict[Expression, Value] = {a: values.get(a.name, a.type.empty) for a in attributes}
        kept: list[Expression] = list(dict.fromkeys([*attributes, *side.window.expressions]))
        names = tuple(e.name if isinstance(e, Attribute) else "" for e in kept)
        types = dict(schema)
        compared = [certain(Attribute(name, types[name])) for name in side.window.attributes]
        table = join.table and port == RIGHT
        equality = list(map(certain, side.equality)) if table else side.equality  # a row has a key (NU29)
        reads = list(dict.fromkeys([*kept, *equality, *_partition_by(side)]))
        reads += [e for e in compared if isinstance(e, Call)]  # their null is an error (NU27)
        deletes = len(reads) if table else None
        if deletes is not None:
            reads.append(Attribute(DELETES, BOOLEAN))
        positions = {e: (column, e.type.present) for column, e in enumerate(kept)}
        clause = policies.clause(side.window, positions | {e.name: positions[e] for e in attributes})
        return cls(
            spec=side,
            clause=clause._replace(trigger=policies.NOTHING, period=0),
            reads=tuple(reads),
            names=names,
            columns=WordColumns([e.type for e in kept]),
            default=tuple(array_of([defaults.get(e, e.type.empty)], e.type) for e in kept),
            equality=tuple(reads.index(e) for e in equality),
            partition_by=tuple(reads.index(e) for e in _partition_by(side)),
            deletes=deletes,
        )

    def store_default(self, words: np.ndarray, strings: Interner) -> None:
        """Writes the default tuple to its slot, NOTHING, of the stored words."""
        self.columns.write(words, np.array([NOTHING]), self.default, strings)

    def store(self, words: np.ndarray, slots: np.ndarray, values: pa.RecordBatch, strings: Interner) -> None:
        """Writes the words of tuples to these slots. `values` has the values of `reads`."""
        self.columns.write(words, slots, values.columns[: len(self.names)], strings)

    def keys(self, values: pa.RecordBatch, interner: Interner) -> tuple[np.ndarray | int, np.ndarray | int]:
        """The codes of the tuples' keys, and the lists of equal keys in which they are stored.

        Without equalities there is no key, and one list. A key with NaN equals no other key, so it has no list (J16);
        nor has a key with null (NU25).
        """
        if not self.equality:
            return NIL, 0
        columns = [values.column(i) for i in self.equality]
        key = key_codes(columns, interner)
        bucket = key
        for column in columns:
            if pa.types.is_floating(column.type):
                bucket = np.where(pc.is_nan(column).fill_null(True).to_numpy(zero_copy_only=False), NIL, bucket)  # noqa: FBT003
            elif column.null_count:
                bucket = np.where(column.is_valid().to_numpy(zero_copy_only=False), bucket, NIL)
        return key, bucket


def of_interest(items: Items, *, final: bool) -> Items:
    """The tuples and clearings up to the final mark, the final mark, and all watermarks: that of a stream which is idle
    advances behind the final mark, too (Q1). Window marks are dropped (P6). `final`: the final mark came before.
    """
    ends = np.flatnonzero(items.kind == FINAL)
    end = 0 if final else int(ends[0]) + 1 if len(ends) else len(items)
    kept = (items.kind == TUPLE) | (items.kind == FINAL) | (items.kind == CLEAR)
    kept[end:] = False
    kept |= items.kind == WATERMARK
    return items if kept.all() else items.only(kept)


def until_finished(arrivals: np.ndarray, running: Iterable[int]) -> np.ndarray:
    """Drops the watermarks behind the mark with which the join is final (P14). `running`: the ports without whose final
    marks it is not, of which none came before.
    """
    ends = np.flatnonzero(arrivals["kind"] == FINAL)
    if not set(running) <= set(arrivals["port"][ends].tolist()):
        return arrivals
    behind = np.flatnonzero(arrivals["kind"] == WATERMARK)
    return np.delete(arrivals, behind[behind > ends[-1]])


def place(items: Items) -> np.ndarray:
    """The value of the field `place` of the arrivals: the number of each item among the neighbouring items with the
    same event and time, from 0.
    """
    number = np.arange(len(items), dtype=np.int32)
    first = np.ones(len(items), np.bool_)
    first[1:] = (np.diff(items.event) != 0) | (np.diff(items.at) != 0)
    return number - np.maximum.accumulate(np.where(first, number, 0))


def _over_pairs(join: Join) -> list[Expression]:
    """The expressions over pairs, or over an unmatched tuple and the default tuple: outputs and condition."""
    expressions = [e for output in join.outputs for _, e in output.attributes]
    return expressions if join.match is None else [*expressions, join.match]


def _partition_by(side: Side) -> tuple[Expression, ...]:
    """The `partition_by` of the side; empty where it has no effect on the window.

    It has no effect if each tuple expires by its own time and there is no partition eviction, or if no tuple is stored.
    """
    eviction = side.window.eviction
    by_own_time = eviction.apart and side.window.partition_eviction is None
    return () if by_own_time or eviction.keeps_nothing else side.partition_by

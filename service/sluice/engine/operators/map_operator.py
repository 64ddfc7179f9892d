"""The Map operator, which does what Functor and Filter do in SPL, and the Split operator. They have no state."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import arrow_schema
from sluice.columns.saved_columns import Data
from sluice.columns.state_tables import PartOfKey
from sluice.engine.aggregates.class_calls import load_classes
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.stream.clock import Clock
from sluice.engine.stream.expression_eval import computed, evaluate
from sluice.engine.stream.items import MAX_TIME, TUPLE, Items
from sluice.engine.stream.rejected_tuples import complete, joined, readable
from sluice.engine.stream.unnesting import unnested
from sluice.model.expressions import Expression
from sluice.model.spec import Map, Split


class MapOperator:
    """Runs one `Map`: makes a tuple for each element if there is `each`, then computes the expressions of an output for
    each tuple for which `where` is true.

    A tuple for which `where` is null is dropped. Marks keep their positions between the tuples (P4). Each output stream
    gets the same tuples and marks (P3).
    """

    def __init__(self, spec: Map) -> None:
        self.spec = spec
        load_classes(e for output in spec.outputs for _, e in output.attributes)

    def initial(self) -> None:
        return None

    def load(self, data: Data) -> None:
        return None

    def due(self, state: None) -> int:
        """MAX_TIME: time alone never makes a Map emit."""
        return MAX_TIME

    def inspect(self, state: None, key: str | None) -> list[InspectedWindow]:
        return []

    def split(self, state: None, parts: int, part_of_key: PartOfKey) -> list[None]:
        return [None] * parts

    def merge(self, states: Sequence[None]) -> None:
        return None

    def feed(self, state: None, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        """The output items by stream, and the rejected tuples under REJECTS."""
        (items,) = inputs
        kept, failed = let_through(self.spec, items)
        outputs, rejected = written(self.spec, kept, kept.tuples)
        return outputs | joined([failed, *rejected])


def let_through(spec: Map, items: Items) -> tuple[Items, Items | None]:
    """The items with a tuple for each element of the list of `each` for which `where` is true, and the rejected tuples
    (ST13).
    """
    failed = None
    if spec.each is not None:
        usable_items, values, failed = readable(items, [spec.each.values], spec.name)
        items = unnested(usable_items, values.column(0), spec.each.attributes)
    return (items if spec.where is None else _only(items, _holding(spec.where, items))), failed


def written(
    spec: Map, items: Items, tuples: pa.RecordBatch, lower: Callable[[Expression], Expression] | None = None
) -> tuple[dict[str, Items], list[Items | None]]:
    """The output items by stream, and the rejected tuples. The expressions are computed over `tuples`, which have a row
    for each tuple of the items; `lower` replaces an expression by what is computed for it.
    """
    outputs, rejected = {}, list[Items | None]()
    for output in spec.outputs:
        expressions = [e for _, e in output.attributes]
        schema = arrow_schema(tuple((name, e.type) for name, e in output.attributes))
        values = computed([e if lower is None else lower(e) for e in expressions], tuples, schema)
        complete_items, columns, bad = complete(items, values, spec.name, output.stream, expressions)
        outputs[output.stream] = complete_items.with_tuples(columns)
        rejected.append(bad)
    return outputs, rejected


class SplitOperator(MapOperator):
    """Runs one `Split`: each condition is computed once for all tuples of a batch (SW1 to SW3)."""

    spec: Split

    def feed(self, state: None, inputs: Sequence[Items], clock: Clock) -> dict[str, Items]:
        (items,) = inputs
        outputs, taken = {}, np.zeros(len(items.tuples), np.bool_)
        for output, condition in zip(self.spec.outputs, self.spec.conditions, strict=True):
            holds = ~taken if condition is None else _holding(condition, items)
            outputs[output.stream] = _only(items, holds if self.spec.several else holds & ~taken)
            taken |= holds
        return outputs


def _holding(condition: Expression, items: Items) -> np.ndarray:
    """For which tuples the condition is true; it is not if it is null (NU10)."""
    holds: np.ndarray = pc.fill_null(evaluate(condition, items.tuples), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    return holds


def _only(items: Items, holds: np.ndarray) -> Items:
    """The marks, and the tuples for which `holds` is true (SW4)."""
    kept = items.kind != TUPLE
    kept[~kept] = holds
    return items.only(kept)

"""Makes a tuple of each element of a list."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import arrow_schema
from sluice.engine.stream.functions.list_functions import keys_of, map_values
from sluice.engine.stream.items import TUPLE, Items
from sluice.model.types import Schema


def unnested(items: Items, values: pa.Array, schema: Schema) -> Items:
    """The items, with a tuple for each element of the list or map of a tuple in place of the tuple. `values` has one
    row per tuple; a null or empty list gives no tuple (ST13). Marks stay between the same tuples.

    The tuples have the attributes of the schema in addition: the element and, if there is a second one, its position.
    """
    lists = keys_of(values) if pa.types.is_map(values.type) else values
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    times = np.ones(len(items), np.int64)
    times[items.kind == TUPLE] = lengths
    many = items.take(np.repeat(np.arange(len(items)), times))
    columns = [_elements(values), pa.array(_positions(lengths))][: len(schema)]
    fields = [*many.tuples.schema, *arrow_schema(schema)]
    return many.with_tuples(pa.RecordBatch.from_arrays([*many.tuples.columns, *columns], schema=pa.schema(fields)))


def _elements(values: pa.Array) -> pa.Array:
    if not pa.types.is_map(values.type):
        return pc.list_flatten(values)
    parts = [pc.list_flatten(side(values)) for side in (keys_of, map_values)]
    return pa.StructArray.from_arrays(parts, ["key", "value"])


def _positions(lengths: np.ndarray) -> np.ndarray:
    starts: np.ndarray = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.asarray(np.arange(int(lengths.sum())) - starts)

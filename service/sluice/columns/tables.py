"""Columns of state: how they grow, and how they become bytes, in formats that each have a version of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa


class Format(NamedTuple):
    """What a saved state says about itself. `version` is raised with every change of the columns or of their types."""

    kind: str
    version: int

    def __str__(self) -> str:
        return f"{self.kind}, version {self.version}"


#: what is read back: bytes, or a part of a file in memory
Data = bytes | memoryview


class StateError(ValueError):
    """Saved state that this version cannot read."""


def grown(column: np.ndarray, size: int) -> np.ndarray:
    """The column itself where it has `size` rows, else a copy of at least twice its length, filled up with zeros."""
    if len(column) >= size:
        return column
    longer = np.zeros((max(size, 2 * len(column)), *column.shape[1:]), column.dtype)
    longer[: len(column)] = column
    return longer


@dataclass(frozen=True, slots=True)
class Saved:
    """Columns on their way into bytes, of which nothing has been copied: one Arrow IPC stream."""

    record: pa.RecordBatch

    @property
    def size(self) -> int:
        """Bytes that `write` will write. O(columns)."""
        sink = pa.MockOutputStream()
        self.write(sink)
        return sink.size()  # type: ignore[no-any-return]

    def write(self, sink: pa.NativeFile) -> None:
        with pa.ipc.new_stream(sink, self.record.schema) as writer:
            writer.write_batch(self.record)


def save(columns: Mapping[str, np.ndarray], form: Format) -> Saved:
    """A record with a binary field for each column's bytes. It changes as the columns do: write it first."""
    fields = [_field(column) for column in columns.values()]
    schema = pa.schema([(name, pa.large_binary()) for name in columns], metadata={"format": str(form)})
    return Saved(pa.record_batch(fields, schema=schema))


def load(data: Data, form: Format) -> dict[str, pa.Buffer]:
    """What `save` wrote in this format. Raises StateError for anything else."""
    try:
        batch = pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()
    except (pa.ArrowException, StopIteration) as error:
        msg = f"the saved state cannot be read: {error}"
        raise StateError(msg) from error
    written = (batch.schema.metadata or {}).get(b"format", b"none").decode()
    if written != str(form):
        msg = f"the saved state has format {written}; this version reads format {form}"
        raise StateError(msg)
    return {name: _bytes(batch.column(name)) for name in batch.schema.names}


def column(data: pa.Buffer, dtype: np.dtype | type, width: int | None = None) -> np.ndarray:
    """A saved column; `width`: with that many words a row."""
    flat = np.frombuffer(data, dtype).copy()
    return flat if width is None else flat.reshape(-1, width) if width else flat.reshape(0, 0)


def _bytes(field: pa.LargeBinaryArray) -> pa.Buffer:
    """Its one value, where it stands; what Arrow gives as a scalar is a copy."""
    _, ends, data = field.buffers()
    return pa.py_buffer(b"") if data is None else data.slice(0, np.frombuffer(ends, np.int64)[1])


def _field(column: np.ndarray) -> pa.LargeBinaryArray:
    """One binary value that is the column itself."""
    values = np.ascontiguousarray(column).reshape(-1)
    ends = np.array([0, values.nbytes], np.int64)
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, pa.py_buffer(ends), pa.py_buffer(values)])

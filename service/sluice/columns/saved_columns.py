"""Arrays of state: how they grow, and how they are written to bytes and read back.

The bytes are an Arrow IPC stream that names its format and version. Reading refuses every other format or version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sluice.model.errors import SluiceError


class Format(NamedTuple):
    """The format of a saved state. Every change of the columns or of their types must raise `version`."""

    kind: str
    version: int

    def __str__(self) -> str:
        return f"{self.kind}, version {self.version}"


#: saved bytes, or a view of a file that is in memory
Data = bytes | memoryview


class StateError(SluiceError):
    """Saved state that is missing, damaged, or of another version."""

    exit_code = 4


def grown(column: np.ndarray, size: int) -> np.ndarray:
    """The array itself if it has `size` rows, otherwise a copy of at least twice its length. New rows are zeros."""
    if len(column) >= size:
        return column
    longer = np.zeros((max(size, 2 * len(column)), *column.shape[1:]), column.dtype)
    longer[: len(column)] = column
    return longer


@dataclass(frozen=True, slots=True)
class SavedRecord:
    """A state that can be written as one Arrow IPC stream with this record."""

    record: pa.RecordBatch

    @property
    def size(self) -> int:
        """The number of bytes that `write` will write."""
        sink = pa.MockOutputStream()
        self.write(sink)
        return sink.size()  # type: ignore[no-any-return]

    def write(self, sink: pa.NativeFile) -> None:
        with pa.ipc.new_stream(sink, self.record.schema) as writer:
            writer.write_batch(self.record)


@dataclass(frozen=True, slots=True)
class SavedColumns:
    """A state that can be written as one Arrow IPC stream: a record with one binary field for each column.

    It shares the memory of the columns. Write it before they change.
    """

    columns: Mapping[str, np.ndarray]
    form: Format

    @property
    def size(self) -> int:
        """The number of bytes that `write` will write. Costs O(number of columns)."""
        data = sum(padded(column.nbytes) for column in self.columns.values())
        return _size_without_data(tuple(self.columns), self.form) + data

    def write(self, sink: pa.NativeFile) -> None:
        fields = [_field(column) for column in self.columns.values()]
        schema = pa.schema([(name, pa.large_binary()) for name in self.columns], metadata={"format": str(self.form)})
        SavedRecord(pa.record_batch(fields, schema=schema)).write(sink)


Saved = SavedRecord | SavedColumns


@cache
def _size_without_data(names: tuple[str, ...], form: Format) -> int:
    """The number of bytes of a saved state whose columns have these names and no values."""
    sink = pa.MockOutputStream()
    SavedColumns(dict.fromkeys(names, np.zeros(0, np.uint8)), form).write(sink)
    return sink.size()  # type: ignore[no-any-return]


def padded(size: int) -> int:
    """The next multiple of 8: the number of bytes that a buffer of `size` bytes takes in an Arrow IPC stream."""
    return -(-size // 8) * 8


def load(data: Data, form: Format) -> dict[str, pa.Buffer]:
    """The bytes of each column that `SavedColumns` wrote in this format. Raises StateError for any other data."""
    try:
        batch = pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()
    except (pa.ArrowException, StopIteration) as error:
        msg = f"the saved state cannot be read: {error}"
        raise StateError(msg) from error
    require_format(batch.schema, form)
    return {name: _bytes(batch.column(name)) for name in batch.schema.names}


def require_format(schema: pa.Schema, form: Format) -> None:
    """Raises StateError if the schema of a saved state does not have this format in its metadata."""
    written = (schema.metadata or {}).get(b"format", b"none").decode()
    if written != str(form):
        msg = f"the saved state has format {written}; this version reads format {form}"
        raise StateError(msg)


def column(data: pa.Buffer, dtype: np.dtype | type, width: int | None = None) -> np.ndarray:
    """A writable copy of a saved column. With `width`, the array has rows of that many words."""
    flat = np.frombuffer(data, dtype).copy()
    return flat if width is None else flat.reshape(-1, width) if width else flat.reshape(0, 0)


def _bytes(field: pa.LargeBinaryArray) -> pa.Buffer:
    """The one value of the field, without a copy (Arrow copies the value of a scalar)."""
    _, ends, data = field.buffers()
    return pa.py_buffer(b"") if data is None else data.slice(0, np.frombuffer(ends, np.int64)[1])


def _field(column: np.ndarray) -> pa.LargeBinaryArray:
    """An Arrow array with one binary value, which is the memory of the column."""
    values = np.ascontiguousarray(column).reshape(-1)
    ends = np.array([0, values.nbytes], np.int64)
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, pa.py_buffer(ends), pa.py_buffer(values)])

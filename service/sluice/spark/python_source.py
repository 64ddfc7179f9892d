"""A streaming source of Spark in Python that has no records. Java calls it in the thread of the query, through the
connection through which it also calls `foreachBatch`. A Python data source of Spark would need processes of its own,
and requests to them in each batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextvars import copy_context

from sluice.spark.spark_internals import SOURCE_INTERFACE, JavaObject


class PythonSource(ABC):
    """Spark's interface `Source`, without rows. A subclass has `next_offset`."""

    class Java:
        """The Java interface, where Py4J looks for it in a class whose methods Java calls."""

        implements = (SOURCE_INTERFACE,)

    def __init__(self, name: str, empty: JavaObject, called: Callable[[], object]) -> None:
        """`name` is the source's name in Spark's messages. `empty` is a streaming DataFrame of Java without rows, with
        the columns of the query's records. `called` is called in the thread in which Java calls this object.
        """
        self._name, self._empty, self._called = name, empty, called
        self._schema = empty.schema()
        self._context = copy_context()  # so that log lines name the pipeline

    @abstractmethod
    def next_offset(self) -> JavaObject:
        """An option of Scala: the offset up to which the source could be read now. It may wait."""

    def schema(self) -> JavaObject:
        return self._schema

    def getOffset(self) -> JavaObject:  # noqa: N802 - Spark gives the name
        self._called()
        return self._context.run(self.next_offset)

    def getBatch(self, start: JavaObject, end: JavaObject) -> JavaObject:  # noqa: N802
        """No rows."""
        return self._empty

    def commit(self, end: JavaObject) -> None:  # noqa: B027 - a source that keeps nothing
        """Nothing is kept for batches that have ended."""

    def stop(self) -> None:
        """Nothing is open. For a query that has failed before its first batch, this may be the first call of its
        thread.
        """
        self._called()

    # Java has no methods of `Object` for the source but these.

    def toString(self) -> str:  # noqa: N802
        return self._name

    def hashCode(self) -> int:  # noqa: N802
        return id(self) & 0x7FFFFFFF

    def equals(self, other: JavaObject) -> bool:
        """Whether `other` is the same source: no. Java's maps compare the references of two objects first."""
        return False

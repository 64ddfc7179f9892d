"""The wait of a query whose inputs are quiet: Spark asks for new offsets when a record comes, instead of all the time.

Spark asks its sources for their offsets every 25 ms while no record comes: a request to a broker and some calls between
processes each time, for 5 % of a processor. The last source that it asks does not answer while nothing can be new: the
idle clock, or, in a query without it, a source that never has an offset. Then the service's own reader requests nothing
either.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sluice.kafka.range_reader import Offsets
from sluice.kafka.record_wait import RecordWait
from sluice.spark.python_source import PythonSource
from sluice.spark.spark_internals import JavaObject

#: seconds after a batch, or after a record that no batch has read, from which a query is quiet
QUIET_S = 2.0
#: the wait as a part of the time for which the query has been quiet, and its bound in seconds: a new topic partition
#: is found after it
PART, MAX_S = 0.25, 30.0
#: the name of the source in Spark's messages
NAME = "the wait for records"


class QuietWait:
    """Used by the thread of the query, while it runs no batch."""

    def __init__(
        self, record_wait: RecordWait, read: Callable[[], Offsets], last: Callable[[], float],
        rest: Callable[[], object], clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`read` gives the offsets up to which the planned batches read, `last` the time in seconds of `clock` at which
        the last batch ended. `rest` lets the readers of the query request nothing until the next batch.
        """
        self._record_wait, self._read, self._last, self._rest, self._clock = record_wait, read, last, rest, clock
        #: the end of the last batch; since when the query is quiet; the offsets from which it waits, None: it does not
        self._ended, self._since = last(), clock()
        self._starts: Offsets | None = None

    def wait(self, seconds: float) -> None:
        """Waits if the query is quiet: until a record comes, for at most so many seconds."""
        self._look()
        quiet = self._clock() - self._since
        if quiet < QUIET_S or seconds <= 0:
            self._record_wait.rest()
            return
        if self._starts is None:
            self._rest()
            self._starts = self._read()
        if self._record_wait.wait(self._starts, min(seconds, quiet * PART, MAX_S)):
            self._since, self._starts = self._clock(), None

    def _look(self) -> None:
        """Notes whether a batch has read records since the last call. One for the clock alone has not."""
        ended, self._ended = self._ended, self._last()
        if ended != self._ended and (self._starts is None or self._read() != self._starts):
            self._since, self._starts = self._ended, None


class WaitSource(PythonSource):
    """The wait as a source that has no offset, so that it stands in no plan and no log of a query."""

    def __init__(self, empty: JavaObject, nothing: JavaObject, called: Callable[[], object], quiet: QuietWait) -> None:
        """`nothing` is Scala's option without a value."""
        super().__init__(NAME, empty, called)
        self._nothing, self._quiet = nothing, quiet

    def next_offset(self) -> JavaObject:
        self._quiet.wait(MAX_S)
        return self._nothing

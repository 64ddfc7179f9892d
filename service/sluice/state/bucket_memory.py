"""The state of a bucket in memory: the operators, and the reorder buffer of records that wait for earlier ones.

A version of the state is a number of batches, including those without rows for this bucket. While a batch is changing
the state, that state has no version and is not used.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from sluice.batch.inputs_again import PastInput
from sluice.batch.packed_rows import IDLE_CLOCK, RECORDS, TOPICS, Packed, packed_time, topics_of, topics_row
from sluice.batch.query_plan import Plan
from sluice.columns.saved_columns import padded
from sluice.engine.graph import Graph, GraphState
from sluice.engine.stream.items import MAX_TIME, Items
from sluice.state.bucket_batch import Batch, in_order
from sluice.time_units import UNSET

#: bytes of the first field of a snapshot: the length of the reorder buffer, which follows it, `padded`; then the state
#: follows
LENGTH = 8


class BucketMemory:
    """The state of the bucket with this number. Nothing of it is written to the checkpoint."""

    def __init__(self, plan: Plan, number: int) -> None:
        self.plan = plan
        self.number = number
        self.graph = Graph(plan.pipeline, plan.topic_partitions)
        #: the state, the saved reorder buffer with rows that wait for handling (bucket_batch.py), and the version of
        #: both (UNSET: no version)
        self._state = self.graph.initial()
        self._waiting = b""
        self._version = 0

    @property
    def version(self) -> int:
        """The version of the state in memory; UNSET if it has none."""
        return self._version

    def in_memory(self) -> GraphState | None:
        """The state in memory, which the caller must not change; None if it has no version."""
        return None if self._version == UNSET else self._state

    def sizes(self) -> dict[str, tuple[int, int]]:
        """The sizes of each operator in the state in memory."""
        return self.graph.sizes(self._state)

    def left_out(self) -> dict[str, int]:
        """See Graph.left_out."""
        return self.graph.left_out(self._state)

    def watermarks(self) -> dict[str, int]:
        """The watermark of each stream in the state in memory."""
        return self.graph.watermarks(self._state)

    def due(self) -> int | None:
        """The next time at which the clock alone causes an output of the state in memory; None if there is none."""
        due = self.graph.due(self._state)
        return None if due == MAX_TIME else due

    def ended(self) -> bool:
        """Whether all inputs have ended in the state in memory."""
        return self.graph.ended(self._state)

    # ---- batches ----------------------------------------------------------------------------------------------------

    def try_rows(self, rows: list[Packed]) -> Iterator[tuple[Batch, dict[str, Items]]]:
        """Applies the rows to the state, which has no version afterwards, and yields each part of the batch with its
        outputs. The batch is complete only when the iterator is exhausted.
        """
        self._version = UNSET
        if not rows:
            return
        topics = next((topics_of(packed) for kind, packed in rows if kind == TOPICS), self.plan.topic_partitions)
        if topics != self.plan.topic_partitions:
            self._set_topic_partitions(topics)
        if self.plan.merging:
            rows, self._waiting = in_order(self.plan, self._waiting, rows)
        for part in Batch.parts(self.plan, rows, self._state.now):
            begin = time.perf_counter()
            outputs = self.graph.feed(self._state, part.inputs, part.clock)
            self._applied(time.perf_counter() - begin, len(part.ordinals))
            yield part, outputs

    def repeat(self, past: PastInput) -> None:
        """Applies the input of a past batch to the state in memory, as `try_rows` did when the batch first ran."""
        self._version = UNSET
        slices = past.slices.get(self.number, [])
        if not slices and past.idle_clock is None:
            return
        if self.plan.merging:
            rows: list[Packed] = [(RECORDS, piece.copied().packed()) for piece in slices]
            if past.idle_clock is not None:
                rows.append((IDLE_CLOCK, packed_time(past.idle_clock)))
            deque(self.try_rows([*rows, topics_row(past.topic_partitions)]), maxlen=0)
            return
        if past.topic_partitions != self.plan.topic_partitions:
            self._set_topic_partitions(past.topic_partitions)
        for part in self.parts(past):
            self.graph.feed(self._state, part.inputs, part.clock)

    def parts(self, past: PastInput) -> Iterator[Batch]:
        """The parts of a past batch, without the reorder buffer."""
        idle_clocks = [] if past.idle_clock is None else [past.idle_clock]
        return Batch.parts_of(self.plan, past.slices.get(self.number, []), idle_clocks, self._state.now)

    def _applied(self, seconds: float, records: int) -> None:
        """Is called for each part of a batch: how long it took, and how many records it had."""

    def _set_topic_partitions(self, topics: Mapping[str, int]) -> None:
        """Changes the numbers of topic partitions to the numbers that the batch had when it first ran.

        The log stores these numbers, because with more topic partitions the same rows would give other outputs.
        """
        body = self.graph.save(self._state)
        self.plan = replace(self.plan, topic_partitions=topics)
        self.graph = Graph(self.plan.pipeline, topics)
        self._state = self.graph.load(body)

    # ---- the whole state --------------------------------------------------------------------------------------------

    def content(self) -> tuple[GraphState, bytes]:
        """The state in memory and the saved reorder buffer. The caller may change them, so they have no version."""
        self._version = UNSET
        return self._state, self._waiting

    def take(self, version: int, state: GraphState, waiting: bytes) -> None:
        """Makes these the state of `version`, and its reorder buffer, in memory."""
        self._state, self._waiting, self._version = state, waiting, version

    def _load(self, body: memoryview) -> None:
        """Loads a snapshot, which has no version yet; without a byte it stands for the initial state.

        Raises StateError if the operators cannot read it.
        """
        self._version = UNSET
        self._state, self._waiting = self.graph.initial(), b""  # frees the old state first
        if not body:
            return
        length = int.from_bytes(body[:LENGTH], "little")
        self._state = self.graph.load(body[LENGTH + padded(length) :])
        self._waiting = bytes(body[LENGTH : LENGTH + length])

    def _size_of(self) -> int:
        """The number of bytes that `_write` would write."""
        return LENGTH + padded(len(self._waiting)) + self.graph.size(self._state)

    def _write(self, sink: pa.NativeFile) -> None:
        """Writes the content of a snapshot: the length of the reorder buffer, the reorder buffer, and the state."""
        length = len(self._waiting)
        sink.write(length.to_bytes(LENGTH, "little") + self._waiting.ljust(padded(length), b"\0"))
        self.graph.write(self._state, sink)

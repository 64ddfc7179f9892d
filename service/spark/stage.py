"""The stateful stage: a bucket's packed rows in, its outputs as packed rows out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from service.spark.buckets import labels
from service.spark.holding import in_order
from service.spark.packed import THROUGH, Packed, topics_row
from service.spark.plan import Plan
from service.spark.state.task import ask
from service.times import UNSET


class Stage(StatefulProcessor):
    """Keyed by bucket. Spark's state says which version of the bucket's state counts, and where its clock stands.

    The state itself is with the bucket's keeper, and in the checkpoint.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._bucket_of = {label: bucket for bucket, label in enumerate(labels(self._plan.buckets))}
        self._head = handle.getValueState("head", "version long, clock long")
        self._topics = topics_row(self._plan.topic_partitions)
        if self._plan.merging:
            self._held = handle.getValueState("held", "held binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: ANN401, N802, N803
        arrived = [(row.holds, bytes(row.packed)) for row in rows]
        yield from (Row(holds=holds, packed=packed) for holds, packed in arrived if holds in THROUGH)
        version, clock = self._head.get() or (0, UNSET)
        rest = [(holds, packed) for holds, packed in arrived if holds not in THROUGH]
        if self._plan.merging:
            rest = self._in_order(rest)
        rest.append(self._topics)
        answer = ask(self._plan, self._bucket_of[key[0]], version, clock, rest)
        if answer is not None:
            version, clock, made = answer
            self._head.update((version, clock))
            yield from (Row(holds=holds, packed=packed) for holds, packed in made)

    def close(self) -> None:
        pass

    def _in_order(self, rows: list[Packed]) -> list[Packed]:
        saved = self._held.get()
        released, held = in_order(self._plan, None if saved is None else bytes(saved[0]), rows)
        self._held.update((held,))
        return released

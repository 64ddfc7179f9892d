"""What every process that works for a query has to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from service.pipeline.spec import Map, Pipeline, Stream, Time, Window, Windowed, policies


@dataclass(frozen=True)
class Plan:
    """A pipeline, with what was found out when its query started."""

    pipeline: Pipeline
    #: id of the checkpoint, which the ledger holds too
    query: str
    #: of the service, with this plan
    start: str
    #: the checkpoint's folder
    checkpoint: str
    buckets: int
    #: topic partitions by stream: of those that are read, of those that are written, and of the dead letters
    topic_partitions: Mapping[str, int]
    #: `max.message.bytes` of the topics that are written
    limits: tuple[tuple[str, int], ...] = ()

    @cached_property
    def inputs(self) -> tuple[Stream, ...]:
        """The streams that are read, in the order of their port numbers."""
        return self.pipeline.inputs

    @cached_property
    def keyed(self) -> frozenset[str]:
        """The streams whose records' own keys come out again: those with nothing but maps to an output."""
        written = {stream.name for stream in self.pipeline.outputs}
        keyed: set[str] = set()
        for operator in reversed(self.pipeline.operators):
            targets = {output.stream for output in operator.outputs}
            if isinstance(operator, Map) and targets & (written | keyed):
                keyed.add(operator.input)
        return frozenset(keyed)

    @property
    def pulsing(self) -> bool:
        """Whether windows may fall due while no record comes."""
        windows = [o.window for o in self.pipeline.operators if isinstance(o, Windowed)]
        return self.pipeline.settings.clock == "processing" and any(map(_timed, windows))


def _timed(window: Window) -> bool:
    return any(isinstance(policy, Time) for policy in policies(window))

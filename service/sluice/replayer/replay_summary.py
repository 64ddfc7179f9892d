"""Summarises a replay: what came in, what came out, and why an operator wrote nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from sluice.engine.graph import Graph, GraphState
from sluice.engine.stream.items import FINAL, TUPLE, WATERMARK, Items
from sluice.engine.stream.rejected_tuples import REJECTS
from sluice.engine.stream.watermark_text import to_text
from sluice.model.spec import Dedup, InWords, Join, Map, Operator, Pipeline, Union, Windowed
from sluice.model.stream_marks import closed_keys
from sluice.model.unparse import seconds
from sluice.model.windows.policies.policy import Replayed, amount


@dataclass(slots=True)
class Counts:
    """Numbers of items; `watermark` is the largest one in nanoseconds since 1970, None without any.

    For the streams that are read: the number of topic partitions, and those without a tuple (`quiet`).
    """

    tuples: int = 0
    marks: int = 0
    watermark: int | None = None
    partitions: int = 0
    quiet: set[int] = field(default_factory=set)

    def add(self, items: Items) -> None:
        by_kind = np.bincount(items.kind, minlength=WATERMARK + 1)
        self.tuples += int(by_kind[TUPLE])
        self.marks += int(by_kind.sum() - by_kind[TUPLE] - by_kind[FINAL] - by_kind[WATERMARK])
        if by_kind[WATERMARK]:
            self.watermark = int(items.watermark[items.kind == WATERMARK].max())

    def add_partitions(self, items: Items) -> None:
        """Counts the topic partitions of items that were read."""
        most = int(items.source.max(initial=-1)) + 1
        self.quiet |= set(range(self.partitions, most))
        self.quiet -= set(items.source[items.kind == TUPLE].tolist())
        self.partitions = max(self.partitions, most)

    def __str__(self) -> str:
        return amount(self.tuples, "tuple") + (f" and {amount(self.marks, 'mark')}" if self.marks else "")


@dataclass(slots=True)
class Summary:
    """Counts the inputs, the outputs and the dead letters of a replay. `lines` is called once, after the last batch."""

    pipeline: Pipeline
    #: by name of the input stream: what its events have
    taken: dict[str, Counts] = field(default_factory=dict)
    #: by name of the operator: what reached it, and what it wrote
    into: dict[str, Counts] = field(default_factory=dict)
    written: dict[str, Counts] = field(default_factory=dict)
    #: by name of the stream of the pipeline that a replay prints: what came out
    given: dict[str, Counts] = field(default_factory=dict)
    #: dead letters by operator, and by stream for records that could not be read
    rejected: Counter[str] = field(default_factory=Counter)
    #: the operator clock at the first and after the last event, nanoseconds
    clock: tuple[int, int] | None = None

    def take(self, inputs: Mapping[str, Items], start: int, end: int) -> None:
        """Counts the items of the events of a batch, which move the clock from `start` to `end` (nanoseconds)."""
        self.clock = (start if self.clock is None else self.clock[0], end)
        for name, items in inputs.items():
            counts = self.taken.setdefault(name, Counts())
            counts.add(items)
            counts.add_partitions(items)

    def reach(self, operator: str, ports: Iterable[Items]) -> None:
        counts = self.into.setdefault(operator, Counts())
        for items in ports:
            counts.add(items)

    def give(self, written: Mapping[str, Items], shown: Iterable[str]) -> None:
        for operator in self.pipeline.operators:
            counts = self.written.setdefault(operator.name, Counts())
            for output in operator.outputs:
                if output.stream in written:
                    counts.add(written[output.stream])
        for name in shown:
            counts = self.given.setdefault(name, Counts())
            if name in written:
                counts.add(written[name])
        if REJECTS in written:
            self.rejected.update(written[REJECTS].tuples.column("operator").to_pylist())

    def reject(self, streams: Iterable[str]) -> None:
        """Counts records that could not be decoded, by their streams."""
        self.rejected.update(streams)

    # ---- lines -------------------------------------------------------------------------------------------------------

    def lines(self, graph: Graph, state: GraphState) -> Iterator[str]:
        """What came in and out, and for each operator that wrote nothing the reason."""
        letters = sum(self.rejected.values())
        dead = f"; {amount(letters, 'dead letter')}" if letters else ""
        yield f"in: {_listed(self.taken)}; out: {_listed(self.given)}{dead}"
        for name, taken in self.taken.items():
            event_time = self.pipeline.streams[name].event_time
            if taken.watermark is not None and event_time is not None and event_time.lag is not None:
                yield f"the watermarks of {name} in the events have no effect: its lag makes them from its tuples"
        sizes = graph.sizes(state)
        for operator in self.pipeline.operators:
            counts = self.written.get(operator.name, Counts())
            if not (counts.tuples or counts.marks):
                held = sizes.get(operator.name, (0, 0))[1]
                inside = f"; it still holds {amount(held, 'tuple')}" if held else ""
                verb = "never fired" if isinstance(operator, Windowed) else "wrote nothing"
                yield f"{operator.name} {verb}: {self._why(operator)}{inside}"

    def _why(self, operator: Operator) -> str:
        counts = self.into.get(operator.name, Counts())
        if not counts.tuples:
            return f"no tuple of {' or '.join(operator.inputs)} reached it"
        if self.rejected[operator.name] >= counts.tuples:
            return "all its tuples are dead letters"
        match operator:
            case InWords() | Map() | Union():
                return _without_output(operator)
            case Dedup():
                return f"no period of {seconds(operator.within)} s was over"
            case Join():
                return "no two tuples matched"
        return self._not_fired(operator, counts)

    def _not_fired(self, operator: Windowed, counts: Counts) -> str:
        at_watermarks = operator.window.fires_at_watermarks
        return self._no_watermark(operator, counts) if at_watermarks else self._no_trigger(operator, counts)

    def _no_watermark(self, operator: Windowed, counts: Counts) -> str:
        if counts.watermark is not None:
            return f"the watermark reached {to_text(counts.watermark)}, which ends no window that holds a tuple"
        event_time = self.pipeline.streams[operator.input].event_time
        if event_time is not None and event_time.per_key is not None:
            return "no key had a tuple that is later than the end of a pane by the lag, and none was idle"
        if event_time is not None and event_time.lag is None:
            return f"no watermark came ({operator.input} has no lag)"
        quiet = self.taken.get(operator.input, Counts()).quiet
        return "no watermark came" + (
            f" (topic partition {min(quiet)} of {operator.input} has no tuple)" if quiet else ""
        )

    def _no_trigger(self, operator: Windowed, counts: Counts) -> str:
        """Why none of the conditions of a tumbling window, or not the trigger of a sliding one, held."""
        window = operator.window
        start, end = self.clock or (0, 0)
        full = ", or none was full before" * (len(window.policies) > len(window.fired_by))
        replay = Replayed(end - start, full, self._no_mark(operator, counts))
        due = f"no window of `{window.clause()}` was due"
        return "; ".join(policy.not_met(replay) or due for policy in window.fired_by) or due

    def _no_mark(self, operator: Windowed, counts: Counts) -> str:
        if counts.marks:
            return "no window mark came after a tuple"
        for stream, reader, _ in closed_keys(self.pipeline):
            aligned = reader.name == operator.name and self.pipeline.streams[stream].marks_in == "aligned"
            if aligned and self.taken.get(stream, Counts()).partitions > 1:
                return f"no window mark came from every topic partition of {stream} (marks_in: aligned)"
        return "no window mark came"


def _listed(counts: Mapping[str, Counts]) -> str:
    return ", ".join(f"{numbers} of {name}" for name, numbers in counts.items()) or "nothing"


def _without_output(operator: InWords | Map | Union) -> str:
    """Why an operator that has tuples wrote none."""
    if isinstance(operator, InWords):
        return operator.without_output
    if isinstance(operator, Map) and operator.each is not None:
        return "its list had no elements, or its condition held for none"
    return "its condition held for no tuple"

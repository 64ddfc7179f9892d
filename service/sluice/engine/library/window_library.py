"""Selects the window library of an operator: for tumbling and sliding windows, or for windows over event time."""

from __future__ import annotations

from sluice.engine.library.clock_windows import ClockLibrary, ClockState
from sluice.engine.library.pane_windows import PaneLibrary, PaneState
from sluice.model.spec import EventTime, Windowed
from sluice.model.types import Schema

Library = ClockLibrary | PaneLibrary
State = ClockState | PaneState


def library(spec: Windowed, schema: Schema, event_time: EventTime | None, sources: int) -> Library:
    """`schema` and `event_time` are those of the input, `sources` the number of its topic partitions."""
    if spec.window.policies:
        return ClockLibrary(spec, schema, sources)
    assert event_time is not None  # noqa: S101 - checked with the file (W16)
    return PaneLibrary(spec, schema, event_time, sources)

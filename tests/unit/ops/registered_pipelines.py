"""Pipelines as a service registers them, without a query."""

from __future__ import annotations

from typing import Any

from sluice.model.spec import Pipeline, Properties, Settings
from sluice.ops.metrics import Metrics
from sluice.ops.pipelines import BATCH_TIMEOUT_S, Health, PipelineStatus, Registered, State


def registered(
    name: str, state: State = State.STARTING, *, began: bool = True, batch: float = 0.0, **status: Any
) -> Registered:
    """A pipeline whose health was reported just now, on a clock that stands still."""
    health = Health(lambda: 100.0, BATCH_TIMEOUT_S)
    health.report(began=began, batch=batch)
    pipeline = Pipeline(name, {}, (), Settings(Properties()))
    return Registered(pipeline, Metrics("1"), health, PipelineStatus(state, **status))

"""Events of a replay as records of Kafka, so that the service and `replay` can be asked the same."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import orjson

from sluice.model.spec import Pipeline
from sluice.replayer.player import replay
from sluice.wire.mark_headers import HEADER

#: the record timestamps of the tests begin here, milliseconds
ORIGIN = 1_357_000_000_000

Event = dict[str, Any]


def record(event: Event, origin: int = ORIGIN) -> dict[str, Any]:
    """As arguments of `Producer.produce`. An event in which only time passes is a clock mark."""
    mark = event.get("punct") or ("watermark" if "watermark" in event else "clock")
    content = (
        {"value": orjson.dumps(finite(event["tuple"]))}
        if "tuple" in event
        else {"value": str(event.get("watermark", "")).encode(), "headers": [(HEADER, mark.encode())]}
    )
    timestamp = origin + round(event["at"] * 1000)
    return content | {"timestamp": timestamp, "partition": event.get("topic_partition", 0)}


def finite(value: Any) -> Any:
    """As JSON has it: NaN and the infinities are texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [finite(one) for one in value]
    return {name: finite(one) for name, one in value.items()} if isinstance(value, dict) else value


def replayed(pipeline: Pipeline, events: Iterable[Event], origin: int = ORIGIN) -> dict[str, list[Event]]:
    """What `replay` gives, by stream, as `Service.outputs` shows it; the dead letters under ""."""
    moved = [event | {"at": (origin + round(event["at"] * 1000)) / 1000} for event in events]
    found: dict[str, list[Event]] = {}
    for made in replay(pipeline, moved, clock_origin="first"):
        shown = {key: made[key] for key in ("tuple", "punct", "watermark") if key in made}
        found.setdefault(made.get("stream", ""), []).append(shown or made["dead_letter"])
    return found

"""When the window of a key fires next, and why: from its content, the operator clock and the watermark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.model.spec import Custom, Join, Operator, Pipeline, Sort, Windowed
from sluice.model.windows.join_windows import AsOf
from sluice.model.windows.policies.policy import Held, Policy
from sluice.model.windows.session_window import Session
from sluice.model.windows.window_kind import Panes
from sluice.page.stage_inspections import StageInspection, StreamProgress
from sluice.page.times import from_seconds, moment, nanoseconds
from sluice.page.why_not_firing import next_end
from sluice.planning.firing_words import firing

Shown = Mapping[str, Any]


def next_firing(pipeline: Pipeline, shown: Shown, inspection: StageInspection) -> str:
    """A sentence about a window partition as an inspection shows it (state/bucket_inspection.py)."""
    operator = next(candidate for candidate in pipeline.operators if candidate.name == shown["operator"])
    if isinstance(operator, Join) and isinstance(operator.window, AsOf):
        return _as_of(operator, operator.window, shown, inspection)
    return _fires(operator, pipeline, shown, inspection) + _early(shown, inspection)


def _early(shown: Shown, inspection: StageInspection) -> str:
    """When an early result is due, as a sentence; empty if none is."""
    due = shown.get("policy", {}).get("early_due")
    return "" if due is None else f" An early result comes {_when(due, inspection)}."


def _fires(operator: Operator, pipeline: Pipeline, shown: Shown, inspection: StageInspection) -> str:
    if not isinstance(operator, Windowed):
        return f"It fires {firing(operator, pipeline)[0]}."
    window, roles = operator.window, operator.window.roles
    if roles.flush:
        held = _held(shown, inspection)
        return f"It fires {', or '.join(policy.next_flush(held) for policy in roles.flush)}."
    if roles.evict is not None and roles.trigger is not None:
        return _sliding(operator, roles.evict, roles.trigger, shown, inspection)
    if window.panes is not None:
        return _pane(window.panes, shown, _progress(operator, inspection))
    if isinstance(window, Session) and isinstance(window.gap, int):
        watermark = _watermark(shown, _progress(operator, inspection))
        return _session(window, shown, inspection.clock if window.clock else watermark)
    return f"It fires {firing(operator, pipeline)[0]}."


def since(shown: Shown) -> str:
    """Since when the window holds tuples, as far as its state has times; else empty."""
    policy = shown.get("policy", {})
    if policy.get("sessions"):
        return f"since {_seconds(policy['sessions'][0]['start'])}"
    if policy.get("at"):
        return f"since {_seconds(policy['at'][0]['time'])} of event time"
    if policy.get("oldest_at") is not None:
        return f"since {_seconds(policy['oldest_at'])} of the operator clock"
    return ""


def _progress(operator: Windowed, inspection: StageInspection) -> StreamProgress:
    return inspection.streams.get(operator.input, StreamProgress())


# ---- tuples, marks, the clock ----------------------------------------------------------------------------------------


def _held(shown: Shown, inspection: StageInspection) -> Held:
    return Held(shown["tuples"], int(shown.get("policy", {}).get("since_trigger", 0)), _timer(shown, inspection))


def _sliding(operator: Windowed, evict: Policy, trigger: Policy, shown: Shown, inspection: StageInspection) -> str:
    policy = shown.get("policy", {})
    waits = isinstance(operator, Custom) or getattr(operator, "aggregate_incomplete_windows", False)
    full = bool(policy.get("full", True)) or evict.fills_at_once or waits
    first = "" if full else " The window was never full, so it gives no output before that."
    if isinstance(operator, Sort):
        return f"It holds {shown['tuples']:,} tuples; the first in the order comes out when the window is full."
    return f"It fires {trigger.next_trigger(_held(shown, inspection))}.{first}"


def _timer(shown: Shown, inspection: StageInspection) -> str:
    due = shown.get("policy", {}).get("due")
    return "when its timer is due" if due is None else _when(due, inspection)


def _when(due: float, inspection: StageInspection) -> str:
    time, clock = from_seconds(due), inspection.clock
    left = f", in {nanoseconds(time - clock)}" if clock is not None and time > clock else ""
    return f"when the operator clock reaches {moment(time)}{left}"


# ---- event time ------------------------------------------------------------------------------------------------------


def _watermark(shown: Shown, progress: StreamProgress) -> int | None:
    """The watermark of the key if it has its own (KT1), else the watermark of the stream."""
    watermark = shown.get("policy", {}).get("watermark")
    return progress.watermark if watermark is None else from_seconds(watermark)


def _pane(panes: Panes, shown: Shown, progress: StreamProgress) -> str:
    times = [from_seconds(entry["time"]) for entry in shown.get("policy", {}).get("at", ())]
    if not times:
        return "It fires when the watermark reaches the end of a pane that holds tuples."
    first, watermark = next_end(panes, times[0]), _watermark(shown, progress)
    if watermark is None:
        return f"Its first pane ends at {moment(first)}; it fires when the watermark, which has no value yet, is there."
    end = max(first, next_end(panes, watermark))
    missing = nanoseconds(end - watermark)
    return (
        f"It fires when the watermark reaches {moment(end)}, the end of a pane; it is {moment(watermark)}, so "
        f"{missing} of event time are missing{_slowest_topic_partition(progress)}."
    )


def _as_of(operator: Join, window: AsOf, shown: Shown, inspection: StageInspection) -> str:
    """When the first tuple of a side comes out (U4), or what the tuples of the other side are kept for."""
    if shown.get("side") == "right":
        return f"Its tuples are kept as partners of later tuples of {operator.left.stream}."
    watermarks = {name: inspection.streams.get(name, StreamProgress()).watermark for name in operator.inputs}
    unset = [name for name, time in watermarks.items() if time is None]
    at = shown.get("policy", {}).get("at", ())
    if not at or unset:
        return f"Its tuples come out with a watermark{f'; {unset[0]} has none yet' if unset else ''}."
    end = from_seconds(at[0]["time"]) + window.grace
    slower = min(watermarks, key=lambda name: watermarks[name] or 0)
    return (
        f"The first tuple comes out when the watermarks of both sides have passed {moment(end)}; that of {slower} is "
        f"{moment(watermarks[slower])}."
    )


def _session(window: Session, shown: Shown, time: int | None) -> str:
    sessions = shown.get("policy", {}).get("sessions", ())
    if not sessions or window.emit == "updates":
        return "It fires with each tuple that changes a session."
    assert isinstance(window.gap, int)  # noqa: S101 - the caller has checked
    end = min(from_seconds(session["end"]) + window.gap + window.grace for session in sessions)
    time_source = "the operator clock" if window.clock else "the watermark"
    now = f"; it is {moment(time)}" if time is not None else "; it has no value yet"
    return f"The first session is over when {time_source} passes {moment(end)}{now}."


def _slowest_topic_partition(progress: StreamProgress) -> str:
    """The topic partition with the lowest watermark, if there are several."""
    waited = [partition for partition in progress.partitions.values() if not partition.idle]
    if len(waited) < 2 or any(partition.watermark is None for partition in waited):  # noqa: PLR2004
        return ""
    return f" (topic partition {progress.holding[0]} is the slowest)"


def _seconds(seconds: float) -> str:
    return moment(from_seconds(seconds))

"""The answers of the lab to a pipeline file and its events.

`answer` gives the problems of the file, or the story and its picture; `test_of` gives the run as a pytest module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from pprint import pformat
from typing import Any

from sluice.config.load import check_text, load_text
from sluice.model.errors import Hint, Problem, SluiceError
from sluice.model.spec import Pipeline, Stream
from sluice.pictures import labels
from sluice.pictures.story import Story, Zoom, keys, zoomed
from sluice.pictures.story_builder import CALENDAR, build_story
from sluice.pictures.svg_drawing import WIDTH, drawing
from sluice.replayer.event_file import EXACT_BELOW, EXPECTED, WrittenEvent, clock_time
from sluice.replayer.player import period, replay
from sluice.time_units import SECOND

#: the most timer ticks of a run; the page must answer while a user types
MAX_TICKS = 2_000
#: the most events of a run, and the most steps: events, and the timers between them
MAX_EVENTS, MAX_STEPS = 500, 2_000
NUMBER = re.compile(r"-?\d+(\.\d*)?")
#: what a time of the calendar lacks, by the number of its colons: pictures show `2026-01-01 10:00`
ZEROS = ("T00:00:00", ":00", "")

Event = Mapping[str, Any]


class LabError(SluiceError):
    """A run that the lab refuses because it would take too long."""


def answer(text: str, events: Sequence[Event], file: str, view: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The answer as values of JSON.

    problems, hints   what `sluice check` prints, each with its line (null: the whole file)
    error             why the events cannot be run; `event` is the number of the event, null for all
    svg, steps        the picture, and one text for each step of it
    keys, range       the keys of all windows, and the first and the last time of the clock as texts
    shown             by the number of an event with a record, what it is decoded: a short label and a text
    streams           the input streams with the attributes that the tuple of an event needs

    `view` says what is drawn: `key`, `from` and `to` (seconds or times of the calendar in UTC), and `width` in pixels;
    all are optional.
    """
    checked = check_text(text, file, environment=None)
    content: dict[str, Any] = {
        "problems": [_finding(problem, file) for problem in checked.problems],
        "hints": [_finding(hint, file) for hint in checked.cautions],
        "error": None, "event": None, "svg": None, "steps": [], "streams": [], "keys": [], "range": [], "shown": {},
    }  # fmt: skip
    if checked.pipeline is None:
        return content
    content["streams"] = [{"name": stream.name, "attributes": _needed(stream)} for stream in checked.pipeline.inputs]
    try:
        return content | _ran(checked.pipeline, events, view or {})
    except SluiceError as error:
        return content | {"error": str(error), "event": _event_of(str(error))}


def _needed(stream: Stream) -> dict[str, str]:
    """The attributes with their types, without the one that is the timestamp of the record: the event has its time."""
    return {name: str(type_) for name, type_ in stream.schema if name != stream.record_timestamp}


def _ran(pipeline: Pipeline, events: Sequence[Event], view: Mapping[str, Any]) -> dict[str, Any]:
    zoom = _zoom(view)
    full_story = _story(pipeline, events)
    story = zoomed(full_story, zoom)
    ends = [0, len(full_story.steps) - 1] if full_story.steps else []
    return {
        "svg": drawing(story, width=float(view.get("width") or WIDTH)),
        "steps": [_step(story, number) for number in range(len(story.steps))],
        "keys": keys(full_story), "range": [labels.at_step(full_story, number) for number in ends],
        "shown": _decoded(full_story, events),
    }  # fmt: skip


def _story(pipeline: Pipeline, events: Sequence[Event]) -> Story:
    exact = [*map(_exact, events)]
    return build_story(pipeline, exact, most=MAX_STEPS, clock_origin=check_length(pipeline, events))


def _exact(event: Event) -> Event:
    """The event with the time as it is written: a float64 of seconds since 1970 is some 100 ns off."""
    at = event.get("at")
    return {**event, "at": Decimal(repr(at))} if isinstance(at, float) and abs(at) >= EXACT_BELOW else event


def _decoded(story: Story, events: Sequence[Event]) -> dict[str, Any]:
    """The events that are records, decoded: by number a short label and a text."""
    return {
        str(step.after): {"label": labels.marble(step.event), "text": labels.arrival(step.event)}
        for step in story.steps
        if step.event is not None and "record" in events[step.after]
    }


def _zoom(view: Mapping[str, Any]) -> Zoom:
    """The part of the story that a request shows. Raises LabError if a time cannot be read."""
    return Zoom(view.get("key") or None, _time(view, "from"), _time(view, "to"))


def _time(view: Mapping[str, Any], name: str) -> int | None:
    """A time of the view in nanoseconds; None if it has none."""
    text = str(view.get(name) or "").strip()
    if not text:
        return None
    try:
        if NUMBER.fullmatch(text):
            return clock_time(Decimal(text))
        missing = "" if text.endswith("Z") else ZEROS[text.count(":")]
        return clock_time(text.replace(" ", "T", 1) + missing)
    except (TypeError, ValueError, ArithmeticError, IndexError):
        message = f"`{name}`: expected {EXPECTED}, got {text[:60]}"
        raise LabError(message) from None


def _is_calendar_time(event: Event) -> bool:
    """Whether the time of the event is one of the calendar, not a number of seconds from 0."""
    at = event.get("at")
    return isinstance(at, int | float) and at * SECOND > CALENDAR


def check_length(pipeline: Pipeline, events: Sequence[Event]) -> str | None:
    """Checks the length of a run. Returns the origin of its clock: "first" if the events have times of the calendar,
    else None: the origin of the pipeline, or 0.

    Raises LabError for a run that would take too long.
    """
    if len(events) > MAX_EVENTS:
        message = f"expected at most {MAX_EVENTS} events in the lab, got {len(events):,}; use `sluice replay`"
        raise LabError(message)
    times = [event["at"] for event in events if isinstance(event.get("at"), int | float)]
    origin = "first" if events and _is_calendar_time(events[0]) and pipeline.settings.clock_origin is None else None
    periods = [p for p in map(period, pipeline.operators) if p]
    if times and periods:
        first = times[0] if origin else (pipeline.settings.clock_origin or 0) / SECOND
        ticks = (max(times) - first) * SECOND / min(periods)
        if ticks > MAX_TICKS:
            message = f"expected at most {MAX_TICKS:,} timer ticks in the lab, got {ticks:,.0f}"
            raise LabError(message)
    return origin


def _finding(finding: Problem | Hint, file: str) -> dict[str, Any]:
    """A problem or a hint as values of JSON, without the folder of the file."""
    return {"line": finding.line, "text": str(finding).replace(file, Path(file).name, 1)}


def _event_of(message: str) -> int | None:
    """The number of the event in a message such as `event 3: ...`."""
    word, _, rest = message.partition(" ")
    number = rest.partition(":")[0]
    return int(number) if word == "event" and number.isdigit() else None


def _step(story: Story, number: int) -> dict[str, Any]:
    step = story.steps[number]
    text = f"at {labels.at_step(story, number)}: {labels.event_words(step)}"
    return {"event": step.after if step.event is not None else None, "text": text}


def parsed(events: str) -> list[Event]:
    """The events of a text with one JSON object a line, their times in seconds: the page moves them by fractions of a
    second. Raises LabError for a line that is no JSON object.
    """
    parsed_events: list[Event] = []
    for number, line in enumerate(events.splitlines(), 1):
        if line.strip():
            try:
                event = json.loads(line)
            except ValueError as error:
                message = f"line {number}: not JSON: {error}"
                raise LabError(message) from None
            if not isinstance(event, dict):
                message = f"line {number}: expected a JSON object, got {line.strip()[:60]}"
                raise LabError(message)
            parsed_events.append(WrittenEvent(_in_seconds(event), line.encode()))
    return parsed_events


def _in_seconds(event: Event) -> Event:
    """The event with its time in seconds if it is a text; one that is no time stays, and is reported when it is run."""
    if isinstance(event.get("at"), str):
        with suppress(TypeError, ValueError):
            return {**event, "at": clock_time(event["at"]) / SECOND}
    return event


TEST = '''"""The outputs of a pipeline for some events, as `sluice lab` found them."""

from pathlib import Path

import sluice

PIPELINE = """\\
{pipeline}"""

EVENTS = {events}

EXPECTED = {expected}


def test_outputs(tmp_path: Path):
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE)
    assert list(sluice.replay(file, EVENTS{origin})) == EXPECTED
'''


def test_of(text: str, events: Sequence[Event], file: str) -> str:
    """The text of a pytest module. Raises SluiceError if the pipeline or an event is wrong."""
    pipeline = load_text(text, file, environment=None)
    origin = check_length(pipeline, events)
    expected = list(replay(pipeline, list(events), clock_origin=origin))
    return TEST.format(
        pipeline=text.replace("\\", "\\\\").replace('"""', r"\"\"\""),
        events=pformat(list(events), width=110, sort_dicts=False),
        expected=pformat(expected, width=110, sort_dicts=False),
        origin=f", clock_origin={origin!r}" if origin else "",
    )

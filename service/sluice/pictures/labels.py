"""Texts of pictures: tuples, times and records in a few letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sluice.engine.stream.items import MAX_TIME
from sluice.engine.stream.watermark_text import watermark
from sluice.json_texts import text_with_digits
from sluice.pictures.story import Change, Chip, Scale, Shown, Step, Story
from sluice.replayer.event_file import clock_time
from sluice.svg.svg_canvas import cut
from sluice.time_units import SECOND

#: the most letters of a chip, of the text of a record, and of the reason why a tuple is late
MOST_CHIP, MOST_TEXT, MOST_REASON = 9, 64, 96
MARK, FINAL_MARK, LATE = "■", "F", "✕"


def event_time(value: Any, tick: int) -> int | None:  # noqa: ANN401 - of JSON
    """The event time of a tuple in nanoseconds; None if it has none that can be drawn."""
    try:
        if isinstance(value, int):
            return value * tick
        time = clock_time(value) if isinstance(value, str) else watermark(value)
    except (TypeError, ValueError, ArithmeticError):
        return None
    return time if abs(time) < MAX_TIME else None


def label(values: Sequence[Any]) -> str:
    """The first values that fit into a chip."""
    texts = [short(value) for value in values]
    pair = "·".join(texts[:2])
    return pair if len(pair) <= MOST_CHIP else cut(texts[0], MOST_CHIP)


def short(value: Any) -> str:  # noqa: ANN401 - of JSON
    """A value in a few letters. A time of the calendar is shown without its date."""
    if isinstance(value, str):
        return value.partition("T")[2].rstrip("Z") if _is_time(value) else value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:  # noqa: PLR2004 - exact in a float64
        return f"{value:.1f}"
    if isinstance(value, float) and 1e5 <= abs(value) < 1e15:  # noqa: PLR2004 - such as seconds since 1970
        return number(value)
    if isinstance(value, list):
        return f"[{', '.join(map(short, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else text_with_digits(value)


def _is_time(text: str) -> bool:
    return text.endswith("Z") and len(text) > len("2013-01-01T") and text[10] == "T" and text[:4].isdigit()


def cut_result(text: str) -> str:
    """The text of a result, in as many letters as a picture has room for."""
    return cut(text, MOST_REASON if text.startswith(LATE) else MOST_TEXT)


def named(values: Mapping[str, Any]) -> str:
    """A tuple with the names of its attributes: `symbol=A price=10.0`."""
    return " ".join(f"{name}={short(value)}" for name, value in values.items())


def record(shown: Shown) -> str:
    """A record that comes out, without the name of its stream."""
    match shown.kind:
        case "tuple":
            return " ".join(map(short, shown.values.values()))
        case "punct":
            return MARK if shown.text == "window" else FINAL_MARK
        case "watermark":
            return f"w {shown.text}"
        case _:
            return f"{LATE} {shown.text}"


def arrival(event: Mapping[str, Any]) -> str:
    """An event of the replay: its tuple with the mark that follows it, its deletion, mark, watermark or record."""
    if "tuple" in event:
        return " ".join([named(event["tuple"]), *(MARK for _ in range("punct" in event))])
    if "delete" in event or "truncate" in event:
        return f"delete {named(event['delete'])}" if "delete" in event else "truncate"
    if "punct" in event:
        return f"{MARK} window mark" if event["punct"] == "window" else "F final mark"
    if "watermark" in event:
        return f"w {event['watermark']}"
    if "before" in event:
        return f"{event['before']:,} events before"
    value = event.get("record", {}).get("value", "")
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    shown = text if isinstance(text, str) else text_with_digits(text)
    return f"{LATE} {shown}" if "rejected" in event else shown


def marble(event: Mapping[str, Any]) -> str:
    """An event in a few letters."""
    if "tuple" in event:
        return label([*event["tuple"].values()])
    return f"{LATE}" if "rejected" in event else cut(arrival(event), MOST_CHIP)


# ---- steps -----------------------------------------------------------------------------------------------------------


def event_words(step: Step) -> str:
    """The event of the step as a text; for timers a text that a timer was due."""
    if step.event is None:
        return "timer"
    words = arrival(step.event) or "time passes"
    return f"{step.event['stream']}: {words}" if "stream" in step.event else words


def window_words(change: Change, story: Story) -> str:
    """The name of the window: its operator if there are several, its key, its bounds."""
    window = change.window
    ports = {port.id: port for port in story.ports}
    several = len(ports) > 1
    words = [f"{window.operator}.{window.side}" if window.side else window.operator] if several else []
    words += [window.key] if window.key else []
    if window.start is not None and window.end is not None:
        scale = ports[window.port].scale
        start, end = on_scale(window.start, scale), on_scale(window.end, scale)
        words.append(f"{start}…{after(start, end)}")
    return " ".join(words)


def shown_chips(change: Change) -> tuple[list[Chip], list[Chip], list[Chip]]:
    """The tuples that a change is drawn with: evicted tuples, tuples in the window, and tuples behind a firing."""
    left = [chip for chip in change.left if not any(chip in fired for fired in change.fired)]
    if change.fired:
        fired = change.fired[-1]
        return left, list(fired), [chip for chip in change.inside if chip in change.entered and chip not in fired]
    return left, list(change.inside), [*change.late]


def several_streams(story: Story) -> bool:
    """Whether the outputs are of several streams, so that the text of an output must name its stream."""
    return len({output.stream for step in story.steps for output in step.outputs if output.kind != "dead_letter"}) > 1


def result_texts(outputs: tuple[Shown, ...], *, named: bool) -> list[str]:
    """The outputs of a step: one text for each tuple, with the mark that follows it. `named`: with their streams."""
    texts: list[str] = []
    for output in outputs:
        text = record(output)
        if output.kind == "punct" and texts and not texts[-1].startswith(LATE):
            texts[-1] += f" {text}"
        else:
            text = cut_result(text)
            texts.append(f"{output.stream}: {text}" if named and output.kind not in ("punct", "dead_letter") else text)
    return texts


# ---- times -----------------------------------------------------------------------------------------------------------


def clock(at: int, *, calendar: bool) -> str:
    """A time of the operator clock: seconds, or a time of the calendar in UTC.

    `5+` is the nanosecond after 5, at which a tuple expires that was in a window for the time up to 5.
    """
    after = at % 1_000_000 == 1
    text = moment(at - after) if calendar else number((at - after) / SECOND)
    return f"{text}+" if after else text


def clock_name(story: Story) -> str:
    """The name of the axis of the operator clock, with its unit."""
    return "clock (UTC)" if story.calendar else "clock (s)"


def at_step(story: Story, number: int) -> str:
    """The time of the operator clock at a step."""
    return clock(story.steps[number].at, calendar=story.calendar)


def on_scale(time: int, scale: Scale | None, *, calendar: bool = False) -> str:
    """An event time as its attribute has it; without a scale, a time of the operator clock."""
    if abs(time) >= MAX_TIME:
        return "∞" if time > 0 else "-∞"
    if scale is None:
        return clock(time, calendar=calendar)
    if scale.type == "timestamp":
        return moment(time)
    return str(time // scale.tick) if scale.type == "int64" else number(time / SECOND)


def number(value: float) -> str:
    """Seconds with at most three decimals."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def moment(time: int) -> str:
    """A time of the calendar without what is zero: `2013-01-01`, `2013-01-01 10:00`, `2013-01-01 10:00:02.125`."""
    at = datetime.fromtimestamp(time // SECOND, UTC)
    fraction = f".{time % SECOND:09}".rstrip("0").rstrip(".")
    seconds = f"{at:%H:%M:%S}{fraction}"
    text = f"{at:%H:%M}" if seconds.endswith(":00") else seconds
    return f"{at:%Y-%m-%d} {text}"


def after(before: str, text: str) -> str:
    """The text of a time behind another one: without its date if both have the same."""
    date, space, clock_time = text.partition(" ")
    return clock_time if space and before.startswith(f"{date} ") else text

"""The graph of a pipeline with what each node does now: the notes of each box, from the status of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from markupsafe import Markup

from sluice.page.graph_drawing import drawing
from sluice.page.pipeline_pages import PipelinePage
from sluice.page.times import moment, rate
from sluice.planning.explain.explain_drawing import band_of

#: class of the style sheet -> the width of a drawing in pixels: one for a desk, one for a phone
WIDTHS = {"wide": 1190, "narrow": 366}


def graph(page: PipelinePage, status: Mapping[str, Any]) -> Markup:
    """The SVG elements, of which the style sheet shows the one that fits."""
    bands = [
        (band_of(stage.explained, number), dict(_notes(shown)))
        for number, (stage, shown) in enumerate(zip(page.stages, status["stages"], strict=True), 1)
    ]
    drawn = "".join(drawing(bands, width, style) for style, width in WIDTHS.items())
    return Markup(drawn)  # noqa: S704 - the XML library has escaped every text


def _notes(stage: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for one in stage["inputs"]:
        lag = f"{one['unread']:,} unread" if one["unread"] else "nothing unread"
        notes = [f"topic {one['topic']}", f"{rate(one['rate'])}, {lag}"]
        if one["event_time"]:
            notes.append(f"watermark {moment(one['watermark'])}" if one["watermark"] is not None else "!no watermark")
        if one["dead_letters"]:
            notes.append(f"!{rate(one['dead_letters'])} dead letters")
        yield f"<{one['stream']}", notes
    for one in stage["operators"]:
        yield one["name"], list(_of_operator(one, stage))
    for one in stage["outputs"]:
        yield f">{one['stream']}", [f"topic {one['topic']}", rate(one["rate"])]


def _of_operator(one: Mapping[str, Any], stage: Mapping[str, Any]) -> Iterator[str]:
    yield (one["windows"] or (one["kind"],))[0]
    yield f"in {rate(one['read'])}, out {rate(one['written'])}, fired {rate(one['fired'])}"
    if one["partitions"] is not None:
        yield f"{one['partitions']:,} partitions, {one['tuples']:,} tuples"
    if one["held_back"]:
        yield "!held back"
        return
    known = [time for time in one["watermarks"].values() if time is not None]
    if one["watermarks"]:
        yield f"watermark {moment(min(known))}" if known else "!no watermark"
    elif stage["clock"] is not None and one["partitions"] is not None:
        yield f"clock {moment(stage['clock'])}"

"""Draws the pictures of docs/ from the examples of docs/windows.md and from an example (`make docs-pictures`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sluice.config.load import load
from sluice.files import project_file
from sluice.pictures.story_builder import build_story
from sluice.pictures.svg_drawing import drawing
from sluice.testing import pipeline_of
from tests.docs.recipes import grid_windows
from tests.docs.test_windows_page import event, examples

FOLDER = project_file("docs/pictures")
#: the picture of the README: an example with all steps
EXAMPLE = "average"
#: name of a picture -> the number of the example of docs/windows.md with this clause
TABLES = {
    "tumbling-count": ("tumbling, count(3)", 0),
    "tumbling-time": ("tumbling, time(5)", 0),
    "tumbling-delta": ("tumbling, delta(x, 2)", 0),
    "tumbling-punct": ("tumbling, punct()", 0),
    "sliding-count": ("sliding, count(3)", 0),
    "sliding-time": ("sliding, time(5)", 0),
    "sliding-delta": ("sliding, delta(x, 2)", 0),
    "sliding-count-count": ("sliding, count(3), count(2)", 0),
    "sliding-count-delta": ("sliding, count(3), delta(x, 2)", 0),
    "sliding-time-time": ("sliding, time(6), time(4)", 0),
    "panes": ("timeInterval, intervalDuration(10)", 0),
    "panes-late": ("timeInterval, intervalDuration(10), discardAge(20)", 0),
    "panes-overlapping": ("timeInterval, intervalDuration(10), creationPeriod(5)", 0),
    "sliding-time-windows": ("slidingTime, timeDifference(0.010), grace(0.005)", 0),
    "session": ("session, inactivityGap(5), grace(1)", 0),
    "session-clock": ("session, inactivityGap(5)", 0),
    "partitioned": ("tumbling, count(2), partitioned", 0),
}


def pictures() -> Iterator[tuple[str, str]]:
    """The name of the file of each picture, and the SVG."""
    tables = [(str(case.id), *case.values) for case in examples("windows.md")]
    for name, (clause, place) in TABLES.items():
        operator, table = [(operator, table) for id_, operator, table in tables if id_ == clause][place]
        events = [event(row) for row in table]
        story = build_story(pipeline_of({"operator": operator, "input": events}), events)
        yield f"{name}.svg", drawing(story, steps=False, heading=clause)
    pipeline = load(project_file(f"examples/{EXAMPLE}.yaml"), environment=None)
    yield f"{EXAMPLE}.svg", drawing(build_story(pipeline, project_file(f"examples/{EXAMPLE}.jsonl")))
    for name, window, operator, events in grid_windows():
        story = build_story(pipeline_of({"operator": operator, "input": events}), events)
        yield f"{name}.svg", drawing(story, steps=False, heading=window)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    written = dict(pictures())
    for path in set(FOLDER.glob("*.svg")) - {FOLDER / name for name in written}:
        path.unlink()
    for name, text in written.items():
        Path(FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()

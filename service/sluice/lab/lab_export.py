"""Writes a run of the lab as a test: the pipeline, the events and the records that must come out."""

from __future__ import annotations

from collections.abc import Sequence
from pprint import pformat

from sluice.config.load import load_text
from sluice.lab.lab_answer import Event, check_length
from sluice.replayer.player import replay

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

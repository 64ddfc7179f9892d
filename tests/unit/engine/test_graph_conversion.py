"""The state of a graph whose inputs have other names in the changed file."""

from __future__ import annotations

import numpy as np

from sluice.config.load import load_text
from sluice.engine.graph import Graph
from sluice.engine.graph_conversion import converted
from sluice.engine.windows.event_time.watermark_tracker import SOURCE, Progress
from sluice.model.changes.operator_changes import kept_of

FILE = """
pipeline: p
streams:
  source: {topic: topic, schema: {t: timestamp}, event_time: {attribute: t, lag: 0}}
  out: {topic: out}
operators:
  - {name: panes, aggregate: source, window: "timeInterval, intervalDuration(60.0)", output: {out: {n: Count()}}}
"""


def test_an_input_with_another_name_keeps_its_watermark_and_its_final_topic_partitions():
    old, new = (load_text(text, "p.yaml") for text in (FILE, FILE.replace("source", "other")))
    before, after = Graph(old, {"source": 2, "out": 1}), Graph(new, {"other": 2, "out": 1})
    state = before.initial()
    state.finals["source"] = {1}
    state.progress["source"] = Progress(7, np.zeros(2, SOURCE))
    made = converted(before, state, after, kept_of(old, new))
    assert made.finals == {"other": {1}}
    assert {name: of.watermark for name, of in made.progress.items()} == {"other": 7}

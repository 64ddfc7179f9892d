"""The windows of a checkpoint, read without its service."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.batch.query_plan import Plan
from sluice.checkpoint.checkpoint_identity import CheckpointError, claim, definition_of, fingerprint_of
from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import write_logs
from sluice.config.load import load_text
from sluice.inspect import checkpoint_reader
from sluice.inspect.checkpoint_reader import read_windows
from sluice.kafka.batch_report import Planned
from sluice.kafka.topics import Topic
from sluice.state.bucket import Bucket

FILE = """
pipeline: sums
streams:
  out: {topic: out}
  in: {topic: in, schema: {v: int64}}
operators:
  - name: sums
    aggregate: in
    window: tumbling, count(9)
    output: {out: {s: Sum(v)}}
"""


def test_a_state_with_a_final_mark_can_be_read_although_an_output_comes_before_the_input(tmp_path):
    pipeline = load_text(FILE, "sums.yaml")
    pipeline = replace(pipeline, settings=replace(pipeline.settings, checkpoint=str(tmp_path)))
    store = FolderStore(tmp_path)
    identity = claim(store, "sums", fingerprint_of(pipeline), 1, 1)
    plan = Plan.of(pipeline, identity, {"out": Topic("out", 4, 1 << 20), "in": Topic("in", 2, 1 << 20)})
    bucket = Bucket(plan, 0)
    state = bucket.graph.initial()
    state.finals["in"] = {1}
    bucket.install(1, state)
    write_logs(store, {-1: Planned(0, {}, 0), 0: Planned(0, {("in", 0): 5, ("in", 1): 5}, 0)}, 0, idle_clock=False)
    assert list(read_windows(pipeline, None)) == [], "the state can be read, and its window is empty"


def test_streams_have_the_order_of_the_checkpoint_although_the_file_has_another(tmp_path, monkeypatch):
    pipeline = load_text(FILE, "sums.yaml")
    pipeline = replace(pipeline, settings=replace(pipeline.settings, checkpoint=str(tmp_path)))
    claim(FolderStore(tmp_path), "sums", fingerprint_of(pipeline), 1, 1, definition=definition_of(pipeline))
    monkeypatch.setattr(checkpoint_reader, "_windows_of", lambda plan, *_: [{"order": list(plan.topic_partitions)}])
    turned = replace(pipeline, streams=dict(reversed(pipeline.streams.items())))
    assert list(read_windows(turned, None)) == [{"order": ["out", "in"]}]


def test_a_changed_file_is_refused_without_the_advice_to_start_anew(tmp_path):
    pipeline = load_text(FILE, "sums.yaml", overrides={"checkpoint": str(tmp_path)})
    claim(FolderStore(tmp_path), "sums", fingerprint_of(pipeline), 1, 1, definition=definition_of(pipeline))
    changed = load_text(FILE.replace("count(9)", "count(8)"), "sums.yaml", overrides={"checkpoint": str(tmp_path)})
    with pytest.raises(CheckpointError) as refused:
        list(read_windows(changed, None))
    assert str(refused.value) == (
        f"checkpoint {tmp_path}: the pipeline file has changed since it was made (operator sums: window). Give the "
        "pipeline file that it was made for."
    )

"""The batches that `sluice replay --checkpoint` repeats, while Spark removes entries of its log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.batch.query_plan import Plan
from sluice.checkpoint.checkpoint_identity import CheckpointError, claim, fingerprint_of
from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import write_first_offsets, write_logs
from sluice.config.load import load_text
from sluice.inspect import verify as module
from sluice.inspect.verify import verify
from sluice.kafka.batch_report import Planned

FILE = """
pipeline: sums
checkpoint: {folder}
kafka: {{bootstrap.servers: nowhere}}
streams:
  in: {{topic: in, schema: {{v: int64}}}}
  out: {{topic: out}}
operators:
  - {{name: sums, aggregate: in, window: "tumbling, count(9)", output: {{out: {{s: Sum(v)}}}}}}
"""
#: the number of the last batch that was written
LAST = 3


class Removing(FolderStore):
    """Of its log, an entry is removed right after it was listed."""

    def list(self, prefix: str = "", *, incomplete: bool = False) -> Iterator[str]:
        names = [*super().list(prefix, incomplete=incomplete)]
        self.delete("offsets/0")
        return iter(names)


@pytest.fixture
def pipeline(tmp_path, monkeypatch):
    """A pipeline with a checkpoint of LAST + 1 batches. The last record of batch n has the offset n."""
    pipeline = load_text(FILE.format(folder=tmp_path), "sums.yaml")
    store = FolderStore(tmp_path)
    identity = claim(store, "sums", fingerprint_of(pipeline), 1, 1)
    plans = {number: Planned(0, {("in", 0): number + 1}, 0) for number in range(-1, LAST + 1)}
    for batch in range(1, LAST + 1):
        write_logs(store, plans, batch, idle_clock=False)
    write_first_offsets(store, plans[-1])
    plan = Plan(pipeline, identity.query, "", str(tmp_path), 1, {"in": 1, "out": 1})
    monkeypatch.setattr(module, "_plan", lambda _: plan)
    monkeypatch.setattr(module, "_position", lambda _: (LAST, {}))
    return pipeline


def repeating(ranges: list[tuple[int, int]], folder: Path, *removed: int) -> type:
    """A class in place of BatchReplay, which notes the offsets of the batches that are repeated.

    It removes the plans of the batches `removed` as soon as the state before the first batch is there.
    """

    class Noting:
        def __init__(self, _plan: Plan, _batch: int) -> None:
            for batch in removed:
                FolderStore(folder).delete(f"offsets/{batch}")

        def records(self, before: Planned, batch: Planned) -> Iterator[None]:
            ranges.append((before.offsets["in", 0], batch.offsets["in", 0]))
            return iter(())

    return Noting


def test_a_plan_that_spark_removes_after_it_was_read_is_not_needed_again(pipeline, tmp_path, monkeypatch):
    ranges: list[tuple[int, int]] = []
    monkeypatch.setattr(module, "BatchReplay", repeating(ranges, tmp_path, 0, 1, 2))
    assert verify(pipeline) == ("sums", 0, LAST, 0, [])
    assert ranges == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_a_plan_that_spark_removes_after_it_was_listed_is_left_out(pipeline, tmp_path, monkeypatch):
    ranges: list[tuple[int, int]] = []
    monkeypatch.setattr(module, "BatchReplay", repeating(ranges, tmp_path))
    monkeypatch.setattr(Plan, "store", Removing(tmp_path))
    assert verify(pipeline) == ("sums", 2, LAST, 0, [])
    assert ranges == [(2, 3), (3, 4)], "batch 1 tells where batch 2 begins"


def test_a_state_that_has_gone_past_the_last_batch_repeats_nothing_and_is_looked_for_again(pipeline, monkeypatch):
    """Beside a running service the state before a batch may be removed after the position was read."""
    lasts, tried = iter([1, LAST]), []

    class Gone:
        def __init__(self, _plan: Plan, batch: int) -> None:
            tried.append(batch)
            if batch < LAST:
                raise FileNotFoundError

        def records(self, _before: Planned, _batch: Planned) -> Iterator[None]:
            return iter(())

    monkeypatch.setattr(module, "_position", lambda _: (next(lasts), {}))
    monkeypatch.setattr(module, "BatchReplay", Gone)
    assert verify(pipeline) == ("sums", LAST, LAST, 0, [])
    assert tried == [*range(2), *range(LAST + 1)]


def test_a_last_batch_whose_state_is_gone_is_an_error(pipeline, monkeypatch):
    def gone(_plan: Plan, _batch: int) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(module, "BatchReplay", gone)
    with pytest.raises(CheckpointError, match=f"no longer records batch {LAST}"):
        verify(pipeline)

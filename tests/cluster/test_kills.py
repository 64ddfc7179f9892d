"""The service is killed at each moment of a batch in parts, on a master with three workers, whose executors go on for a
while: outputs over event time, of joins, tables and two stages stay those of local mode.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos.flows import EventJoin, Panes, Sessions, TableJoin, TwoStages
from tests.cluster.bucket_writers import pausing
from tests.cluster.cluster import Standalone
from tests.cluster.test_random_pipelines import Random, grouped, in_any_order
from tests.recovery.harness.sluice_process import SluiceProcess

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

#: a seed that no other test has, since it names the topics
SEED, WORKERS = 1000, 3
MOMENTS = ("feeding", "part", "produced", "committing", "committed", "part-written", "closing", "closed")


def killed_at_each_moment(service: SluiceProcess) -> None:
    """What stood still in an executor goes on right after the kill."""
    for moment in MOMENTS:
        service.at(moment)
        service.await_moment(moment)
        service.kill()
        service.start()


def test_the_service_is_killed_at_each_moment_of_a_batch_in_parts(broker: str, tmp_path: Path):
    pipeline = Random(broker, SEED, (Panes, Sessions, EventJoin, TableJoin, TwoStages), most=150)
    expected, folder = pipeline.expected(), tmp_path / "cluster"
    count = sum(map(len, expected.values()))
    with ExitStack() as stack:
        local = pipeline.run(stack, "local", tmp_path / "local", "local[2]", count)
    assert in_any_order(grouped(local)) == in_any_order(expected)
    with ExitStack() as stack:
        standalone = Standalone(stack, tmp_path, pausing(folder / "moments"))
        for _ in range(WORKERS):
            standalone.add_worker()
        found = pipeline.run(stack, "cluster", folder, standalone.url, count, disturb=killed_at_each_moment)
    assert {place: len(rows) for place, rows in found.items()} == {place: len(rows) for place, rows in local.items()}
    assert found == local

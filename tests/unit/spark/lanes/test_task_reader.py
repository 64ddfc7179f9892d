from __future__ import annotations

import pyarrow as pa
import pytest

from sluice.batch.bucket_labels import labels
from sluice.batch.envelope import NOT_READ
from sluice.batch.query_plan import Plan
from sluice.config.load import load_text
from sluice.kafka.partition_reader import RecordsNotReadError
from sluice.kafka.planned_batch import Planned
from sluice.spark.lanes import task_reader
from sluice.spark.lanes.task_reader import Range, ranges, route_ranges

A, B = ("trades", 0), ("trades", 1)
FILE = """
pipeline: tasks
streams:
  trades: {topic: trades, schema: {k: string}}
  out: {topic: out}
operators:
  - {name: all, map: trades, output: [out]}
kafka: {bootstrap.servers: "nowhere:9092"}
"""


def planned(**offsets):
    return Planned(0, {("trades", int(name[1:])): offset for name, offset in offsets.items()}, 0)


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        pytest.param(planned(p0=5, p1=7), planned(p0=6, p1=9), [Range(*A, 5, 6), Range(*B, 7, 9)], id="both go on"),
        pytest.param(planned(p0=5, p1=7), planned(p0=5, p1=9), [Range(*B, 7, 9)], id="one has no records"),
        pytest.param(planned(p0=5), planned(p0=6, p1=9), None, id="a new topic partition"),
        pytest.param(planned(p0=5, p1=7), planned(p0=6, p1=2), None, id="a topic that was made anew"),
    ],
)
def test_a_batch_has_a_range_for_each_topic_partition_with_records(before, now, found):
    assert ranges(before, now) == found


class Reader:
    """A reader whose records do not arrive."""

    closed = False

    def read(self, *_):
        raise RecordsNotReadError("records did not arrive in time")
        yield

    def close(self):
        self.closed = True


def test_each_bucket_learns_that_records_were_not_read_and_the_next_task_has_a_new_client(monkeypatch):
    reader = Reader()
    monkeypatch.setattr(task_reader, "_READERS", {(("bootstrap.servers", "nowhere:9092"),): reader})
    plan = Plan(load_text(FILE, "tasks.yaml"), "q", "s", "folder", 2, {"trades": 2, "out": 1})
    numbers = pa.RecordBatch.from_pydict({"id": [0]})
    (rows,) = route_ranges(plan, 0, [Range(*A, 5, 6)], [numbers])
    assert rows.to_pydict() == {
        "bucket": list(labels(2)), "kind": [NOT_READ] * 2, "packed": [b"records did not arrive in time"] * 2,
    }  # fmt: skip
    assert reader.closed
    assert not task_reader._READERS  # noqa: SLF001

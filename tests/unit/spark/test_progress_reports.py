"""What is read of Spark's progress reports."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sluice.spark.query_watch import newest_batch, newest_timestamp


def query(report: Any) -> Any:
    """A query whose newest report this is."""
    return SimpleNamespace(_jsq=SimpleNamespace(lastProgress=lambda: report))


REPORT = SimpleNamespace(batchId=lambda: 2, timestamp=lambda: "2026-01-01T10:00:00.000Z")


@pytest.mark.parametrize(("report", "batch", "timestamp"), [(None, None, ""), (REPORT, 2, "2026-01-01T10:00:00.000Z")])
def test_the_newest_report_has_a_batch_and_a_timestamp(report: Any, batch: int | None, timestamp: str):
    assert (newest_batch(query(report)), newest_timestamp(query(report))) == (batch, timestamp)

"""Reads the progress reports of a query from Spark's own objects, and of each only what is needed.

PySpark's `lastProgress` and `recentProgress` make a Python object of every report and of all its parts, 20 ms for the
ten that are kept here. A service reads reports four times a second, so that was a twelfth of its processor time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from sluice.spark.spark_internals import kept_reports, newest_report

#: A progress report of Spark: one per batch, and others while no batch runs. The latter have the number of the batch
#: that will run next, so only the timestamp, the time of the trigger, identifies a report.
Progress = Mapping[str, Any]


def newest_timestamp(query: StreamingQuery) -> str:
    """The timestamp of the newest report; "" if there is none yet."""
    report = newest_report(query)
    return str(report.timestamp()) if report is not None else ""


def newest_batch(query: StreamingQuery) -> int | None:
    """The number of the batch in the newest report; None if there is none yet."""
    report = newest_report(query)
    return int(report.batchId()) if report is not None else None


def reports_after(query: StreamingQuery, timestamp: str) -> list[Progress]:
    """The reports that are newer than the one with this timestamp, oldest first; all that Spark keeps if it is gone."""
    found: list[Progress] = []
    for report in reversed(kept_reports(query)):
        if report.timestamp() == timestamp:
            break
        found.append(json.loads(report.json()))
    return found[::-1]

"""Loads everything that the queries of a pipeline need, before the pipeline has to run.

The first batch of a query in a new Java process takes many times as long as a later one: Java loads and compiles
classes, Spark compiles the code that it generates, and Python processes import modules and load kernels. A warm-up runs
the query of a stage on a few records of the input topics, with a checkpoint of its own in a temporary folder, and drops
the outputs. It has no producer and reads no ledger, so nothing of it can be seen from outside. Code of the user runs,
as it does when a checkpoint is restored.
"""

from __future__ import annotations

import logging
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sluice.batch.envelope import Packed
from sluice.batch.query_plan import Plan
from sluice.checkpoint.checkpoint_identity import Identity
from sluice.kafka.topics import Topic
from sluice.model.spec import Pipeline
from sluice.model.spreading import required_buckets
from sluice.ops.batch_progress import Observe
from sluice.processes import processors
from sluice.spark.failures import stopped
from sluice.spark.lanes.batch_lanes import OpenLanes
from sluice.spark.progress_reports import newest_batch
from sluice.spark.query import start
from sluice.spark.watch import IDLE
from sluice.state.server.pool import end_query

LOGGER = logging.getLogger("sluice")
#: number of batches of a warm-up, and of records in each
BATCHES, RECORDS = 3, 200
#: longest time of a warm-up, in seconds
MAX_S = 120.0


def warm_up(spark: SparkSession, stage: Pipeline, found: Mapping[str, Topic], interrupted: Callable[[], bool]) -> None:
    """Runs a few batches of the stage's query. `found` has its topics by name. Raises the error of a batch that fails.

    Ends early as soon as `interrupted` says so, which is called again and again and should wait for a moment.
    """
    began = time.monotonic()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-warm-", ignore_cleanup_errors=True))
        plan = _plan(stage, found, folder)
        stack.callback(end_query, plan.query)
        opened = OpenLanes()
        stack.callback(opened.close)
        query = start(spark, plan, opened=opened, deliver=drop)
        stack.callback(stopped, query.stop)
        while query.isActive and not (interrupted() or _warm(query) or time.monotonic() - began > MAX_S):
            pass
        if (failure := query.exception()) is not None:
            raise failure
    LOGGER.info("warm-up ended", extra={"stage": stage.name, "seconds": round(time.monotonic() - began, 1)})


def drop(plan: Plan, batch: int, rows: list[Packed], observe: Observe) -> None:
    """Takes the place of `commit`: the outputs of a warm-up go nowhere."""


def _plan(stage: Pipeline, found: Mapping[str, Topic], folder: str) -> Plan:
    settings = stage.settings
    buckets = required_buckets(stage) or processors()
    # Without the idle clock: its times would be batches of their own.
    warm = replace(
        settings, checkpoint=folder, start="earliest", on_data_loss="continue", clock="records",
        max_records_per_batch=RECORDS, trigger_interval=0,
    )  # fmt: skip
    identity = Identity(stage.name, "", buckets, f"warm-up-{uuid.uuid4()}")
    return Plan.of(replace(stage, settings=warm), identity, found, str(uuid.uuid4()))


def _warm(query: StreamingQuery) -> bool:
    """Whether all batches have ended, or there are no more records."""
    newest = newest_batch(query)
    return (newest is not None and newest >= BATCHES - 1) or query.status["message"] in IDLE

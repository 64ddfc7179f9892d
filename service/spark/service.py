"""The long-running service: from a pipeline to a query that is looked after."""

from __future__ import annotations

import logging

from service.pipeline.spec import Pipeline
from service.spark.query import prepare, spark_for, start
from service.spark.watch import watch

LOGGER = logging.getLogger("sluice")


def serve(pipeline: Pipeline, master: str, http_port: int | None, *, reset_ledger: bool = False) -> None:
    """Runs the pipeline until SIGTERM or SIGINT. Raises what makes it fail."""
    plan = prepare(pipeline, reset_ledger=reset_ledger)
    spark = spark_for(plan, master)
    try:
        watch(start(spark, plan), lambda progress: None)
    finally:
        spark.stop()

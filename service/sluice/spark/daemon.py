"""The daemon that forks Spark's Python workers. It first imports and compiles all that they need, once for all."""

from __future__ import annotations

import gc

import pyarrow as pa
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import sluice.spark.lanes.spark_lane  # noqa: F401
from sluice.batch.kernel_warm_up import for_service
from sluice.ops.log_lines import configure_as_parent
from sluice.processes import forked_processes_end_with_their_parents
from sluice.state.server.pool import start_pool
from sluice.state.server.state_server import serve

# The threads of a pool do not exist in a forked process.
pa.set_cpu_count(1)
configure_as_parent()
for_service()
# Spark's workers collect garbage after each task. Frozen objects are skipped, and the imported ones are never garbage.
gc.collect()
gc.freeze()

if __name__ == "__main__":
    forked_processes_end_with_their_parents()
    start_pool(serve)
    manager()

"""What Spark's Python workers and the state servers need, imported and compiled in advance, once for all of them."""

from __future__ import annotations

import gc

import pyarrow as pa
import pyspark.worker  # noqa: F401

import sluice.spark.lanes.spark_lane
import sluice.state.server.state_server  # noqa: F401
from sluice.arrow_without_pandas import keep_pandas_out
from sluice.batch.kernel_warm_up import for_service
from sluice.ops.log_lines import configure_as_parent
from sluice.processes import collect_garbage_rarely


def load() -> None:
    """Compiles the kernels of the pipelines in the environment. This process may fork afterwards."""
    keep_pandas_out()
    # The threads of a pool do not exist in a forked process.
    pa.set_cpu_count(1)
    configure_as_parent()
    for_service()
    collect_garbage_rarely()
    # Spark's workers collect garbage after each task. Frozen objects are skipped; the imported ones are never garbage.
    gc.collect()
    gc.freeze()

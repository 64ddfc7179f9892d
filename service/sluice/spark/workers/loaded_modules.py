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


def load(pipelines: str) -> None:
    """Compiles the kernels of these pipelines, a text that `kernel_warm_up.to_text` made. This process may fork
    afterwards.
    """
    keep_pandas_out()
    # The threads of a pool do not exist in a forked process.
    pa.set_cpu_count(1)
    configure_as_parent()
    for_service(pipelines)
    collect_garbage_rarely()
    gc.collect()
    keep()


def keep() -> None:
    """Excludes the objects that exist now from the collection of garbage.

    What is imported is never garbage. Spark's workers collect garbage after each task, and each collection writes into
    all objects that it looks at, which ends the sharing of their memory between processes.
    """
    gc.freeze()

"""Forks Spark's Python workers; what they all need is imported once, before."""

from __future__ import annotations

import numba  # noqa: F401
import pyarrow as pa
import pyarrow.compute  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import service.spark.stage  # noqa: F401

# A pool of threads does not survive a fork.
pa.set_cpu_count(1)

if __name__ == "__main__":
    manager()

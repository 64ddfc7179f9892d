"""What the master URL of Spark says: one machine or a cluster, and how often a failed task is repeated."""

from __future__ import annotations

import re

#: maximum number of attempts of a task before the batch fails, Spark's default on clusters: a worker may be killed
ATTEMPTS = 4


def is_cluster(master: str) -> bool:
    """Whether this master URL names a cluster: any but local, local[N] and local[N,F]."""
    return re.fullmatch(r"local(\[.*\])?", master) is None


def repeating(master: str) -> str:
    """The master URL with which Spark repeats failed tasks. Plain `local[*]` fails at the first failure of a task."""
    local = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return f"local[{local[1] or 1},{ATTEMPTS}]" if local else master

"""The steps of the work of a batch, whose durations are measured.

read --> compute --> produce --> commit          without a job of Spark
   job          -->  produce --> commit          as a job of Spark
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum


class Step(StrEnum):
    """A step, by the value of the label `step` of its metric."""

    #: the records are received, decoded, and divided among the buckets
    READ = "read"
    #: the state servers compute the windows, and encode their outputs
    COMPUTE = "compute"
    #: both of them, in a job of Spark
    JOB = "job"
    #: the outputs are merged, and handed over to the Kafka client, which sends them
    PRODUCE = "produce"
    #: the brokers have everything, and end the transaction
    COMMIT = "commit"


#: called with a step that has succeeded, and its duration in seconds
Observe = Callable[[Step, float], None]


def ignored(step: Step, seconds: float) -> None:
    """Measures nothing."""


class StepTimer:
    """Measures steps that follow each other."""

    def __init__(self, observe: Observe) -> None:
        """The first step begins now."""
        self._observe, self._began = observe, time.perf_counter()

    def ended(self, step: Step) -> None:
        """Calls `observe`. The next step begins now."""
        began, self._began = self._began, time.perf_counter()
        self._observe(step, self._began - began)

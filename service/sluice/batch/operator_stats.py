"""What the operators did in a batch and hold after it, in numbers that are at hand: nothing is counted row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sluice.engine.stream.items import MADE, WINDOW, Items
from sluice.kafka.batch_report import Counts
from sluice.model.spec import Operator


def report_of(
    operators: Sequence[Operator], streams: Mapping[str, Items], sizes: Mapping[str, tuple[int, int]]
) -> Counts:
    """By operator, of one bucket. `streams` has what was read and what was made, `sizes` partitions and tuples held.

    Windows that fired without holding anything are not counted: each bucket has one where they all have none.
    """
    report: Counts = {}
    for operator in operators:
        made = [streams[output.stream] for output in operator.outputs if output.stream in streams]
        report[operator.name] = {
            "in": sum(streams[name].tuples.num_rows for name in operator.inputs if name in streams),
            "out": sum(items.tuples.num_rows for items in made),
            "windows": max((_fired(items) for items in made), default=0),
        }
        if operator.name in sizes:
            partitions, tuples = sizes[operator.name]
            report[operator.name] |= {"partitions": partitions, "tuples": tuples}
    return report


def _fired(items: Items) -> int:
    return int(np.count_nonzero((items.kind == WINDOW) & (items.source == MADE)))

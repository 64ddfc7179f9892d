"""Statistics of operators: how many tuples and firings each had in a batch, and the size of its state after it.

The numbers come from lengths and array operations; there is no loop over rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sluice.engine.stream.items import MADE, WINDOW, Items
from sluice.kafka.batch_report import Counts
from sluice.model.spec import Operator


def report_of(
    operators: Sequence[Operator], streams: Mapping[str, Items], sizes: Mapping[str, tuple[int, int]]
) -> Counts:
    """The statistics of one bucket, by operator (see `Report.operators`).

    streams   the items read and the items emitted by operators, by stream
    sizes     the number of window partitions and of stored tuples, by operator

    Firings of empty windows are not counted: every bucket has one, and together they write at most one mark.
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

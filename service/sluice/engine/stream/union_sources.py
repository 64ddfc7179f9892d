"""The topic partitions of items behind a union, as the numbers in `Items.source`.

Topic partition p of input i (from 0) of a union of n inputs is number p * (n + 1) + i + 1. Items that a windowed
operator made keep MADE, for which marks use number 0. So each topic partition of each input has a number of its own,
and a window mark closes the tuples of its own topic partition only (B1).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sluice.model.spec import Passing, Pipeline, Union


def source_of(source: np.ndarray, number: int, inputs: int) -> np.ndarray:
    """The numbers behind a union of `inputs` inputs for the numbers `source` of its input `number` (R5)."""
    return np.where(source < 0, source, source * (inputs + 1) + number + 1).astype(np.int32)


def source_count(pipeline: Pipeline, stream: str, topic_partitions: Mapping[str, int]) -> int:
    """One more than the greatest number of the items of a stream. `topic_partitions` has the counts of the inputs."""
    writer = pipeline.writer_of(stream)
    if writer is None:
        return topic_partitions.get(stream, 1)
    if not isinstance(writer, Passing):
        return 1
    count = max(source_count(pipeline, name, topic_partitions) for name in writer.inputs)
    return count * (len(writer.inputs) + 1) if isinstance(writer, Union) else count


def topic_partition_of(pipeline: Pipeline, stream: str, source: np.ndarray) -> np.ndarray:
    """The topic partitions in Kafka from which items of a stream were read. Negative numbers stay."""
    writer = pipeline.writer_of(stream)
    if writer is None or not isinstance(writer, Passing):
        return source
    if not isinstance(writer, Union):
        return topic_partition_of(pipeline, writer.inputs[0], source)
    topic_partitions, width = source.copy(), len(writer.inputs) + 1
    for number, name in enumerate(writer.inputs):
        of_input = (source >= 0) & (source % width == number + 1)
        topic_partitions[of_input] = topic_partition_of(pipeline, name, source[of_input] // width)
    return topic_partitions

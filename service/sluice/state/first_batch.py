"""Where the inputs of a query without a batch begin, and its first batch, which loads its tables (rule M3).

Both are written into Spark's logs before the query starts. So they are fixed as every plan is: a start that is
interrupted begins at the same records again, whatever was written to the topics since then.
"""

from __future__ import annotations

import logging
import time

from sluice.batch.query_plan import Plan
from sluice.checkpoint import offset_log
from sluice.checkpoint.offset_log import NO_IDLE_CLOCK, write_first_offsets, write_first_plan
from sluice.kafka.batch_report import Planned
from sluice.kafka.range_reader import Offsets, beginnings, ends
from sluice.kafka.requests import clients
from sluice.time_units import MILLISECOND

LOGGER = logging.getLogger("sluice")


def plan_first_batch(plan: Plan) -> None:
    """Writes where the inputs begin, if the query has no batch yet, and the plan of the first batch, if its tables have
    records (M3). That batch reads each table from the beginning of its topic to the end that the topic has now.

    An input begins where an earlier start has written; else a table at its beginning, and another input as `start` of
    the pipeline file says. So the records of an exchange that the stage before it has written meanwhile are read
    (`start: latest`). What begins with the oldest records needs no file.
    """
    tables = {str(stream.topic) for stream in plan.inputs if stream.table}
    first_offsets, late = offset_log.first_offsets(plan.store), plan.pipeline.settings.start == "latest"
    if not (tables or first_offsets or late) or offset_log.batches(plan.store) != (None, None):
        return
    topic_partitions = plan.places
    with clients(plan.pipeline.settings.kafka, "admin") as requests:
        first, last = beginnings(requests, topic_partitions), ends(requests, topic_partitions)
    early = tables | {topic for topic, _ in first_offsets}  # what is new of a known topic is a topic partition
    begin = {place: first[place] if place[0] in early or not late else last[place] for place in topic_partitions}
    before = {place: first_offsets.get(place, offset) for place, offset in begin.items()}
    loaded = {place: last[place] if place[0] in tables else offset for place, offset in before.items()}
    count = sum(loaded[place] - before[place] for place in topic_partitions)
    if count:
        now = time.time_ns() // MILLISECOND * MILLISECOND
        write_first_plan(plan.store, _at(0, before), _at(now, loaded), idle_clock=plan.has_idle_clock)
        LOGGER.info("the first batch loads the tables: topics=%s offsets=%d", ",".join(sorted(tables)), count)
    elif before != first_offsets and (first_offsets or late):
        write_first_offsets(plan.store, _at(0, before))


def _at(now: int, offsets: Offsets) -> Planned:
    return Planned(now, offsets, NO_IDLE_CLOCK)

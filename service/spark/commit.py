"""Writes what all tasks of a batch have made, in one transaction. Lives in the process beside the driver."""

from __future__ import annotations

import os

from confluent_kafka import Consumer, Producer, TopicPartition

from service.engine.items import FINAL, TUPLE
from service.spark.merge import merged
from service.spark.outgoing import MARKED
from service.spark.packed import RECORDS, unpack
from service.spark.plan import Plan
from service.wire.marks import header
from service.engine.items import WINDOW

PRODUCERS = {}


def commit(plan: Plan, batch_id: int, rows: list[tuple[int, bytes]]) -> None:
    if plan.query not in PRODUCERS:
        p = Producer({**plan.pipeline.settings.kafka, "transactional.id": plan.query, "linger.ms": 1, "compression.type": "lz4", "queue.buffering.max.messages": 4000000, "queue.buffering.max.kbytes": 2000000})
        p.init_transactions()
        PRODUCERS[plan.query] = p, Consumer({**plan.pipeline.settings.kafka, "group.id": "ledger" + plan.query})
    p, c = PRODUCERS[plan.query]
    by = {}
    for holds, packed in rows:
        if holds == RECORDS:
            batch, about = unpack(packed)
            by.setdefault(about["stream"], []).append(batch)
    p.begin_transaction()
    topic = None
    for name, parts in by.items():
        batch = merged(parts, plan.buckets)
        topic = plan.pipeline.streams[name].topic
        for at, kind, tp, key, value in zip(*(batch.column(n).to_pylist() for n in ("at", "kind", "partition", "key", "value"))):
            if kind == TUPLE:
                p.produce(topic, value, key, tp, timestamp=at // 1000000)
            else:
                p.produce(topic, value, key, tp, timestamp=at // 1000000, headers=[header(WINDOW if kind != FINAL else FINAL)])
        p.poll(0)
    if topic:
        p.send_offsets_to_transaction([TopicPartition(topic, 0, batch_id + 1)], c.consumer_group_metadata())
    p.commit_transaction()

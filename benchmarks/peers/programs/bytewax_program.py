"""The workloads in Bytewax: python -m bytewax.run bytewax_program.py:flow, with the environment of a Task."""

import os
import sys
from collections import deque
from datetime import UTC, datetime, timedelta

import bytewax.operators as op
import bytewax.operators.windowing as windows
import orjson
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow

WORKLOAD, LIVE = os.environ["WORKLOAD"], bool(os.environ["LIVE"])
BROKERS = [os.environ["BOOTSTRAP"]]
LAST, SPAN_MS = 100, 10_000
started = False


def decode(message):
    global started  # noqa: PLW0603 - one program, one input
    if not started:
        started = True
        print("FIRST", flush=True)
    record = orjson.loads(message.value)
    return record["k"], record


def encode(keyed):
    key, result = keyed
    return KafkaSinkMessage(key.encode(), orjson.dumps(result))


def totals(values, record):
    result = {"n": len(values), "s": sum(values), "m": max(values)}
    return result | {"w": record["w"]} if "w" in record else result


def slide(values, record):
    """The last records of a key. The sum is computed anew: a running sum of float64 drifts."""
    values = deque(maxlen=LAST) if values is None else values
    values.append(record["v"])
    return values, totals(values, record)


def slide_time(pairs, record):
    pairs = deque() if pairs is None else pairs
    pairs.append((record["ts"], record["v"]))
    while pairs[0][0] < record["ts"] - SPAN_MS:
        pairs.popleft()
    return pairs, totals([v for _, v in pairs], record)


def tumble(keyed):
    # The watermark follows the wall clock, too. Without a wait, a pause while a backlog is read makes records late.
    clock = windows.EventClock(lambda record: datetime.fromtimestamp(record["ts"] / 1000, UTC), timedelta(seconds=10))
    windower = windows.TumblingWindower(align_to=datetime(2023, 11, 14, tzinfo=UTC), length=timedelta(seconds=10))
    folded = windows.fold_window(
        "window", keyed, clock, windower,
        lambda: (0, 0.0, float("-inf")),
        lambda a, record: (a[0] + 1, a[1] + record["v"], max(a[2], record["v"])),
        lambda a, b: (a[0] + b[0], a[1] + b[1], max(a[2], b[2])),
    )  # fmt: skip
    return op.map("result", folded.down, lambda row: (row[0], dict(zip("nsm", row[1][1], strict=True))))


def count(keyed):
    collected = op.collect("window", keyed, timedelta(hours=1), LAST)
    return op.map("result", collected, lambda row: (row[0], totals([r["v"] for r in row[1]], row[1][-1])))


flow = Dataflow("bench")
source = KafkaSource(BROKERS, [os.environ["INPUT"]], tail=LIVE, batch_size=10_000)
records = op.map("decode", op.input("input", flow, source), decode)
if WORKLOAD == "pass":
    results = records
elif WORKLOAD == "tumble":
    results = tumble(records)
elif WORKLOAD == "count":
    results = count(records)
elif WORKLOAD == "slide":
    results = op.stateful_map("window", records, slide)
elif WORKLOAD == "slidetime":
    results = op.stateful_map("window", records, slide_time)
else:
    sys.exit(f"no {WORKLOAD}")
op.output("output", op.map("encode", results, encode), KafkaSink(
    BROKERS, os.environ["OUTPUT"], add_config={"compression.type": "lz4", "linger.ms": "5"},
))  # fmt: skip

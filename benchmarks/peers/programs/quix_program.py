"""The workloads in Quix Streams, with the environment of a Task."""

import os
from datetime import timedelta

from quixstreams import Application
from quixstreams.dataframe.windows import Count, Max, Sum

WORKLOAD = os.environ["WORKLOAD"]
LAST, SPAN = 100, timedelta(seconds=10)
TOTALS = {"n": Count(), "s": Sum("v"), "m": Max("v")}

application = Application(
    broker_address=os.environ["BOOTSTRAP"],
    consumer_group=os.environ["RUN"],
    auto_offset_reset="earliest",
    state_dir=os.environ["FOLDER"],
    loglevel="WARNING",
    processing_guarantee="exactly-once",
    producer_extra_config={"compression.type": "lz4"},
)
started = False


def note_first(record):
    global started  # noqa: PLW0603 - one program, one input
    if not started:
        started = True
        print("FIRST", flush=True)
    return record


def only_totals(result):
    return {name: result[name] for name in TOTALS}


def slide(record, state):
    """The last values of a key: its own sliding count window gives nothing before it is full."""
    values = [*state.get("values", []), record["v"]][-LAST:]
    state.set("values", values)
    result = {"n": len(values), "s": sum(values), "m": max(values)}
    return result | {"w": record["w"]} if "w" in record else result


def join(left, right):
    return {"n": 1, "s": left["v"] + right["v"], "m": max(left["v"], right["v"])}


def source(name):
    return application.dataframe(application.topic(name, value_deserializer="json", key_deserializer="str"))


frame = source(os.environ["INPUT"]).apply(note_first)
if WORKLOAD == "tumble":
    frame = frame.tumbling_window(SPAN).agg(**TOTALS).final().apply(only_totals)
elif WORKLOAD == "count":
    frame = frame.tumbling_count_window(LAST).agg(**TOTALS).final().apply(only_totals)
elif WORKLOAD == "slide":
    frame = frame.apply(slide, stateful=True)
elif WORKLOAD == "slidetime":
    frame = frame.sliding_window(SPAN).agg(**TOTALS).current().apply(only_totals)
elif WORKLOAD == "join":
    other = source(os.environ["SECOND_INPUT"])
    grace = timedelta(seconds=30)
    milliseconds = SPAN // timedelta(milliseconds=1)
    frame = frame.join_interval(other, on_merge=join, backward_ms=milliseconds, forward_ms=milliseconds, grace_ms=grace)
frame.to_topic(application.topic(os.environ["OUTPUT"], value_serializer="json", key_serializer="str"))
application.run()

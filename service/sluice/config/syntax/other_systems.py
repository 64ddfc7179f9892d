"""What users of other systems write into a pipeline file, and what has to be written here instead, for messages.

The systems are SPL, Flink, Kafka Streams, ksqlDB, Spark, RisingWave and Quix. A text that this module does not know
gets the general message of the place where it stands.
"""

from __future__ import annotations

import re

from sluice.model.errors import Fault

EVENT_TIME = "over event time, or"
TUMBLING = (
    f"timeInterval, intervalDuration(size) for windows that tumble {EVENT_TIME} tumbling, time(size) over the clock"
)
HOPPING = (
    f"timeInterval, intervalDuration(size), creationPeriod(advance) for windows that hop {EVENT_TIME} "
    "sliding, time(size), time(advance) over the clock"
)
SESSION = "session, inactivityGap(gap) for sessions"
KAFKA_SLIDING = "slidingTime, timeDifference(size), grace(grace) for the SlidingWindows of Kafka Streams"
COUNTED = "tumbling, count(n) or sliding, count(n), count(m) for windows that count tuples"
LATENESS = "discardAge(seconds) in a timeInterval clause, or grace(seconds) in a session or slidingTime clause"
GRACE = (
    "grace(seconds) in a session, slidingTime or interval clause; for timeInterval, lag in event_time of the input "
    "stream, which holds the watermark back"
)
EARLY = "early as a key of its own, as in early: time(10), for results of an open window"
GLOBAL = "sliding or tumbling with a policy; a window over everything does not exist"

#: the beginning of a clause, in any case -> what to write; the first that fits counts
CLAUSES: tuple[tuple[str, str], ...] = (
    (r"(window\s+)?(hopping|hop|sliding(event|processing)timewindows?|hopping_window)\b", HOPPING),
    (r"(window\s+)?(tumble|tumbling\s*\(|tumbling(event|processing)timewindows?|tumbling_window)", TUMBLING),
    (r"(window\s+)?(session\s*\(|session_?windows?\b|(event|processing|dynamic)\w*sessionwindows?)", SESSION),
    (r"slidingwindows?\b", KAFKA_SLIDING),
    (r"timewindows?\b.*advanceby", HOPPING),
    (r"(window|timewindows?|tumblingwindows?)\b.*,.*,", HOPPING),
    (r"(window|timewindows?|tumblingwindows?)\b", TUMBLING),
    (r"(count_?windows?|tumbling_count|sliding_count)\b", COUNTED),
    (r"globalwindows?\b|unlimitedwindows?\b", GLOBAL),
    (r".*,\s*(early|emit)\s*\(", EARLY),
    (r"sliding\s*\(\s*[^\s)]", f"sliding without parentheses, and a policy behind a comma; or {HOPPING}"),
)
CLAUSES_OF_SPL = re.compile(r"\s*(?P<stream>\w+)\s*:\s*(?P<clause>(tumbling|sliding|timeInterval)\b.*)", re.DOTALL)

#: keys of an operator, without underscores and in small letters -> what to write
KEYS = {
    "on": "equality_left and equality_right with a list of attributes each, or match with a condition",
    "using": "equality_left and equality_right with a list of attributes each, or match with a condition",
    "param": "the parameters of SPL's param clause as keys of the operator: partition_by, group_by and others",
    "filter": "where of a map operator in front of this one, which writes the stream that this one reads",
    "where": "where of a map operator in front of this one, which writes the stream that this one reads",
    "having": "where of a map operator behind this one, which reads the stream that this one writes",
    "select": "output, with the attributes of each stream as expressions",
    "keyby": "partition_by with a list, and partitioned in the window clause",
    "groupbykey": "partition_by with a list, and partitioned in the window clause",
    "trigger": "the trigger in the window clause, behind the eviction policy: sliding, count(10), count(1); or "
    "early: time(10) for results of an open tumbling, timeInterval or session window",
    "earlyfire": EARLY,
    "earlyfirings": EARLY,
    "withearlyfirings": EARLY,
    "suppress": "nothing: a window is emitted once, when it closes; early: time(10) also emits what it holds so far",
    "watermark": "event_time of the input stream, with lag for watermarks that follow the tuples",
    "withwatermark": "event_time of the input stream, with lag for watermarks that follow the tuples",
    "allowedlateness": LATENESS,
    "grace": GRACE,
}
#: words for operators -> what to write
OPERATORS = {
    "filter": "map with the input stream, and where with the condition",
    "functor": "map with the input stream, and perhaps where with a condition",
    "select": "map with the input stream, and output with its attributes",
    "flatmap": "custom with the input stream, and handler with a Python class",
    "reduce": "aggregate with the input stream, and a window",
    "deduplicate": "dedup with the input stream, by with the key, and within with the length of a period",
    "distinct": "dedup with the input stream, by with the key, and within with the length of a period",
    "dropduplicates": "dedup with the input stream, by with the key, and within with the length of a period",
    "dropduplicateswithinwatermark": "dedup with the input stream, by with the key, and within: eventTime(seconds)",
    "punctor": "mark_when of a stream, which makes window marks, and an operator that reads the stream",
}


def clause_of_another_system(text: str) -> Fault | None:
    """What to write instead of a window clause of another system; None if it is not known as one."""
    if found := CLAUSES_OF_SPL.match(text):
        clause = found["clause"].rstrip().removesuffix(";").rstrip()
        return Fault("the clause without its stream, which another key of the operator names", text.strip(), clause)
    if text.rstrip().endswith(";"):
        return Fault("a clause without a semicolon at its end", text.strip(), text.rstrip().rstrip("; "))
    start = text.strip().lower().rpartition("org.apache.")[2]
    what = next((what for pattern, what in CLAUSES if re.match(pattern, start)), None)
    return Fault(what, text.strip()) if what else None


def key_of_another_system(key: str) -> str | None:
    """What to write instead of a key of an operator; None if it is not known."""
    return KEYS.get(key.replace("_", "").lower())


def operator_of_another_system(key: str) -> str | None:
    """What to write instead of a word for an operator; None if it is not known."""
    return OPERATORS.get(key.replace("_", "").lower())


def line_of_spl(line: str) -> str | None:
    """The window clause in a line such as `window: trades : sliding, count(5);`, which is no YAML; None without one."""
    found = re.match(r"(- )?window\w*\s*:\s*(?P<rest>.*)", line)
    fault = CLAUSES_OF_SPL.match(found["rest"]) if found else None
    return fault["clause"].rstrip().removesuffix(";").rstrip() if fault else None

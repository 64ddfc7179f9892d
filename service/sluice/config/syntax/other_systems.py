"""Words of other systems that users write into a pipeline file, with the words of this project to suggest instead.

The systems are SPL, Flink, Kafka Streams, ksqlDB, Spark, RisingWave and Quix. A text that is not in this
module gets the general message about its part of the file.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from sluice.model import types
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
EXTRACTED = "event_time with an attribute; record_timestamp names an attribute that is the timestamp of the record"
GLOBAL = "tumbling, punct() and the key early, as in early: count(1), for results over everything so far"
CUMULATED = "cumulate, maximumDuration(size), step(size), for windows over event time that grow by a step"
PRECEDING = (
    "sliding, count(n), count(1) for the last n tuples or sliding, time(size), count(1) for those of a time, and "
    "partition_by as a key of its own"
)
WITHIN = "tumbling, time(size) or sliding, time(size); only a dedup has the key within"
PARTITIONED = "partition_by as a key of its own, as in partition_by: [user]"
EMITTED = (
    "emit as a key of its own, as in emit: updates of a session or slidingTime window; without it a window is emitted "
    "when it closes, and early: count(1) of a tumbling or timeInterval window emits each change"
)
BEFORE_AFTER = (
    "interval, before(seconds), after(seconds): by how much a right tuple may be earlier and later than the left one"
)

#: the beginning of a clause, in any case -> what to write; the first that fits counts
CLAUSES: tuple[tuple[str, str], ...] = (
    (r"(window\s+)?(hopping|hop|sliding(event|processing)timewindows?|hopping_window)\b", HOPPING),
    (r"(window\s+)?cumulate\s*\(", CUMULATED),
    (r"(window\s+)?(tumble|tumbling\s*[(\d]|tumbling(event|processing)timewindows?|tumbling_window)", TUMBLING),
    (r"(window\s+)?(session\s*[(\d]|session_?windows?\b|(event|processing|dynamic)\w*sessionwindows?)", SESSION),
    (r"sliding_?windows?\b", KAFKA_SLIDING),
    (r"timewindows?\b.*advanceby", HOPPING),
    (r"(window|timewindows?|tumblingwindows?)\b.*,.*,", HOPPING),
    (r"(window|timewindows?|tumblingwindows?)\b", TUMBLING),
    (r"(count_?windows?|tumbling_count|sliding_count)\b", COUNTED),
    (r"(global|unlimited)_?windows?\b|(global|unbounded|landmark|none|all)\s*(,|$)", GLOBAL),
    (r"(over|rows|range)\b", PRECEDING),
    (r"within\b", WITHIN),
    (r".*,\s*(early|emit)\s*\(", EARLY),
    (r".*[\s,)]emit\s+(changes|final|on\s)", EMITTED),
    (r".*(,\s*by\s+\w|[\s,)](partition(ed)?|group(ed)?|key(ed)?)[\s_]*by(\s+\w|\s*\())", PARTITIONED),
    (r"sliding\s*(\(\s*[^\s)]|\d)", f"sliding without parentheses, and a policy behind a comma; or {HOPPING}"),
)
#: kind of a window -> parts that other systems give it, without underscores and in small letters -> what to write
PARTS: dict[str, dict[str, str]] = {
    "timeInterval": dict.fromkeys(("grace", "graceperiod", "lag", "delay"), GRACE)
    | {"allowedlateness": "discardAge(seconds), which counts back from the watermark, or lag in event_time"},
    "interval": dict.fromkeys(
        (
            *("within", "size", "duration", "range", "difference", "timedifference"),
            *("between", "lower", "upper", "lowerbound", "upperbound"),
        ),
        BEFORE_AFTER.removeprefix("interval, "),
    ),
    "asOf": dict.fromkeys(
        ("direction", "backward", "forward", "nearest"),
        "no direction: the partner is always the newest right tuple that is not newer than the left one",
    ),
}
#: words that other systems put beside the policies of a window, without underscores and in small letters -> as PARTS
POLICIES = {
    **dict.fromkeys(
        ("slide", "every", "advance", "advanceby", "hop", "period", "step"),
        "a trigger behind the eviction policy, as in sliding, time(5m), time(1m)",
    ),
    **dict.fromkeys(("size", "length", "duration", "range", "last", "rows"), "count(n) or time(seconds)"),
    **dict.fromkeys(("gap", "inactivitygap", "timeout", "inactivity", "withgap"), SESSION),
    **dict.fromkeys(("lateness", "allowedlateness", "graceperiod"), LATENESS),
    **dict.fromkeys(("mark", "marker", "marks"), "punct()"),
}
#: kind of a window -> sizes of other systems -> the size here
SIZES: dict[str, dict[str, str]] = {
    "timeInterval": {
        **dict.fromkeys(("size", "duration", "length", "range", "time"), "intervalDuration"),
        **dict.fromkeys(("advance", "advanceby", "slide", "hop", "every", "period", "step"), "creationPeriod"),
        **dict.fromkeys(("offset", "startoffset"), "intervalOffset"),
        **dict.fromkeys(("lateness", "late"), "discardAge"),
    },
    "session": {
        **dict.fromkeys(("gap", "timeout", "inactivity", "idle", "withgap", "time"), "inactivityGap"),
        **dict.fromkeys(("maxduration", "maximum", "max", "maxlength", "size"), "maximumDuration"),
        **dict.fromkeys(("allowedlateness", "lateness", "graceperiod"), "grace"),
    },
    "slidingTime": {
        **dict.fromkeys(("size", "duration", "range", "difference", "time"), "timeDifference"),
        **dict.fromkeys(("allowedlateness", "lateness", "graceperiod"), "grace"),
    },
    "interval": dict.fromkeys(("allowedlateness", "lateness", "graceperiod"), "grace"),
    "asOf": {
        **dict.fromkeys(("tolerance", "maxage", "age", "within"), "maximumAge"),
        **dict.fromkeys(("allowedlateness", "lateness", "graceperiod"), "grace"),
    },
}
#: the beginning of the window of a join, as CLAUSES
JOIN_CLAUSES: tuple[tuple[str, str], ...] = (
    (r"(join_?windows?|interval_?join|within|between|after|before)\b", BEFORE_AFTER),
    (r"for\s+system_time|temporal|versioned", "asOf: the newest right tuple that is not newer than the left one"),
    (r"sliding\b", "window_left and window_right, each with a sliding window; or " + BEFORE_AFTER),
    (r"(tumbling|tumble|hopping|hop|session|timeinterval)\b", BEFORE_AFTER + "; a join has no such windows"),
)
#: words of SQL's expressions, in small letters -> what to write
WORDS: dict[str, str] = {
    "is": "isPresent(x) in place of x IS NOT NULL, and not isPresent(x) in place of x IS NULL",
    "isnull": "not isPresent(x)",
    "like": "a function such as startsWith, endsWith, contains or regexContains, in place of LIKE",
    "in": "comparisons joined by or (x == 1 or x == 2), in place of IN",
    "between": "two comparisons joined by and (1 <= x and x <= 3), in place of BETWEEN",
    "as": "a function that converts, such as int64(x) or float64(x), in place of CAST(x AS ...)",
    "over": "an aggregate whose window is sliding, with partition_by, in place of OVER",
    "concat": "texts with + between them, in place of concat; string(x) makes a text of a number",
    **dict.fromkeys(("hash", "murmur", "fnv"), "md5(s), sha1(s), sha256(s), sha512(s) or crc32(s)"),
    "distinct": "CountDistinct(x) or CollectDistinct(x), in place of DISTINCT",
    **dict.fromkeys(("case", "when", "then", "else", "if", "iif"), "condition ? value : other value"),
    **dict.fromkeys(
        ("now", "current_timestamp", "unix_timestamp", "localtimestamp", "proctime", "rand", "random", "uuid"),
        "an expression over the tuple alone: there is no function for the present time or for random numbers",
    ),
    "lag": "previous(x) or previous(x, n) in the output of a map, with partition_by, in place of LAG",
    "lead": "an aggregate with the window sliding, count(2), count(1): First(x) is the value, Last(x) the one after it",
}
#: words of SQL that may well be the name of an attribute, where one is expected, as WORDS
WORDS_IN_SQL: dict[str, str] = {
    **dict.fromkeys(
        ("rank", "row_number", "dense_rank", "topk"),
        "rank(), denseRank() or rowNumber() in the output of a sort, with limit; MaxN(x, n) or CollectMaxN(y, x, n) "
        "in an aggregate",
    ),
    **dict.fromkeys(
        ("select", "from", "where", "having", "group", "order"),
        "an expression without the clauses of SQL, for which operators have keys: where, group_by, order_by",
    ),
    "filter": "where: as the last argument, as in 'Sum(x, where: x > 5)', in place of FILTER (WHERE ...)",
    **dict.fromkeys(("mod", "modulo", "fmod"), "x % y, in place of mod"),
    **dict.fromkeys(("div", "intdiv"), "floor(x / y), in place of div; a quotient of two int64 has no fraction"),
    "square": "x * x, in place of square",
    **dict.fromkeys(("clamp", "clip"), "min(max(x, low), high), in place of clamp"),
    **{word: instead for row in types.TYPES for word, instead in row.functions_instead.items()},
    **dict.fromkeys(
        ("variance", "var", "var_samp", "varsamp", "var_pop", "varpop"),
        "pow(SampleStdDev(x), 2.0) or pow(PopulationStdDev(x), 2.0), in place of the variance",
    ),
    "mode": "CollectDistinct(x) with CountByDistinct(x), the values and how often each occurs, in place of the mode",
    **dict.fromkeys(
        ("sumif", "countif", "averageif", "avgif", "sum_if", "count_if", "countifs", "sumifs"),
        "where: as the last argument, as in 'Count(where: x > 5)' or 'Sum(x, where: x > 5)'",
    ),
    **dict.fromkeys(
        ("adddate", "subdate", "datetimeadd"), 't + 5m or t - 5m, a timestamp and a duration; or addTime(t, 1, "month")'
    ),
    **dict.fromkeys(("lambda", "function", "def"), "an expression over the tuple: there are no functions of its own"),
    **{f"p{share}": f"Percentile(x, 0.{share})" for share in (50, 75, 90, 95, 99)},
}
#: types of other systems without an equal here -> what to do
TYPES = {
    **{word: instead for row in types.TYPES for word, instead in row.instead.items()},
    **dict.fromkeys(
        ("struct", "row", "object", "record", "tuple"),
        "{id: int64, name: string} is a struct, and json keeps any value as its text",
    ),
    **dict.fromkeys(("map", "dict"), "map<string, int64> is a map of numbers"),
    **dict.fromkeys(
        ("epoch", "timestamp_ms", "millis"),
        "milliseconds since 1970 are an int64, seconds and texts in ISO 8601 a timestamp",
    ),
    **dict.fromkeys(("optional", "nullable", "null", "option"), "int64? is an int64 or null"),
}
#: words of SQL that are written in small letters here
SMALL = ("and", "or", "not", "true", "false")
CLAUSES_OF_SPL = re.compile(
    r"\s*(window\s+)?(?P<stream>\w+)\s*:\s*(?P<clause>(tumbling|sliding|timeInterval)\b[^;]*)", re.DOTALL
)
#: what other languages write between two policies
BETWEEN = re.compile(r"(?<=\))\s*(\|\|?|&&?|OR\b|AND\b|and\b)\s*")
ARGUMENTS = re.compile(r"\(.*\)", re.DOTALL)

#: keys of an operator, without underscores and in small letters -> what to write
KEYS = {
    "on": "equality_left and equality_right with a list of attributes each, or match with a condition",
    "using": "equality_left and equality_right with a list of attributes each, or match with a condition",
    "param": "the parameters of SPL's param clause as keys of the operator: partition_by, group_by and others",
    "filter": "where of a map operator in front of this one, which writes the stream that this one reads",
    "where": "where of a map operator in front of this one, which writes the stream that this one reads",
    "having": "where of a map operator behind this one, which reads the stream that this one writes",
    "select": "output, with the attributes of each stream as expressions",
    **dict.fromkeys(
        ("keyby", "groupbykey", "keyedby", "key", "keys", "by", "partitionkey"),
        "partition_by with a list, and partitioned in the window clause",
    ),
    "trigger": "the trigger in the window clause, behind the eviction policy: sliding, count(10), count(1); or "
    "early: time(10) for results of an open tumbling, timeInterval or session window",
    **dict.fromkeys(("earlyfire", "earlyfirings", "withearlyfirings", "earlyresults", "earlytrigger"), EARLY),
    **dict.fromkeys(("evictor", "eviction"), "the eviction policy in the window clause: sliding, count(10), count(1)"),
    **dict.fromkeys(
        ("size", "slide", "hop", "advance", "advanceby", "gap", "inactivitygap", "duration", "length", "every"),
        "sizes in the window clause: tumbling, time(5m); sliding, time(5m), time(1m); session, inactivityGap(5m)",
    ),
    "within": "sizes in the window clause, as in tumbling, time(5m); only a dedup has the key within",
    **dict.fromkeys(("zone", "timezone"), "align with a mapping, such as {zone: Europe/Berlin}"),
    "offset": "intervalOffset(seconds) in a timeInterval clause, or align with a time and a zone",
    "origin": "clock_origin at the top of the file",
    **dict.fromkeys(
        ("limit", "orderby", "sortby", "top", "topn", "topk"),
        "a sort operator with order_by and limit; or MaxN(x, n) or CollectMaxN(y, x, n) among the outputs",
    ),
    "union": "a list of streams as input, as in aggregate: [a, b]",
    "parallelism": "buckets at the top of the file",
    **dict.fromkeys(
        ("late", "lateoutput", "lateness", "latetuples", "lateevents", "sideoutput", "sideoutputlatedata"),
        f"{LATENESS}; dead_letters at the top of the file names the stream of late tuples",
    ),
    "suppress": "nothing: a window is emitted once, when it closes; early: time(10) also emits what it holds so far",
    "watermark": "event_time of the input stream, with lag for watermarks that follow the tuples",
    "withwatermark": "event_time of the input stream, with lag for watermarks that follow the tuples",
    "allowedlateness": LATENESS,
    "grace": GRACE,
}
#: words of an operator that is a map, as KEYS
KEYS_OF_A_MAP = {
    **dict.fromkeys(("filter", "having", "condition", "when", "predicate"), "where with the condition"),
    "select": KEYS["select"],
}
#: words of a join, as KEYS
KEYS_OF_A_JOIN = {
    "within": "window: interval, before(15m), after(15m) for event times, or window_left and window_right",
    **dict.fromkeys(("type", "how", "jointype"), "algorithm with inner, leftOuter, rightOuter or outer"),
    "table": "table: true in the stream of the table, under streams",
}
#: words of a dedup and of a sort, as KEYS
KEYS_OF_A_DEDUP = {
    **dict.fromkeys(("key", "keys", "keyby", "groupby", "partitionby", "id", "on", "using", "fields", "columns"), "by"),
    **dict.fromkeys(("window", "period", "interval", "duration", "ttl"), "within, as in within: time(10m)"),
    **dict.fromkeys(("first", "last", "strategy"), "keep"),
    "limit": "within with the length of a period, of which one tuple is emitted",
}
KEYS_OF_A_SORT = {
    **dict.fromkeys(("sortby", "by", "order", "key"), "order_by"),
    **dict.fromkeys(("top", "topn", "topk", "first", "n"), "limit"),
}
#: keys of a stream or of its event_time, as KEYS
KEYS_OF_A_STREAM = {
    **dict.fromkeys(
        ("watermark", "watermarklag", "delay", "grace", "maxoutoforderness", "outoforderness", "allowedlateness"),
        "lag under event_time: how far the watermark is behind the newest tuple",
    ),
    **dict.fromkeys(
        ("lag", "idleafter", "resolution"), "this key under event_time, as in event_time: {attribute: time, lag: 5s}"
    ),
    **dict.fromkeys(("valueformat", "serde", "valueserde"), "format"),
    **dict.fromkeys(("kafkatopic", "topicname"), "topic"),
    **dict.fromkeys(
        ("fields", "columns", "attributes", "types", "value"), "schema with the attributes and their types"
    ),
    **dict.fromkeys(("primarykey", "keyfield", "keyschema", "keyformat"), "key with attributes, and perhaps format"),
    **dict.fromkeys(
        ("offset", "offsets", "autooffsetreset", "startingoffsets", "scanstartupmode", "start"),
        "start at the top of the file: earliest or latest",
    ),
    **dict.fromkeys(("timestamp", "rowtime", "timestampextractor", "time"), EXTRACTED),
    **dict.fromkeys(("brokers", "bootstrapservers"), "kafka at the top of the file, with bootstrap.servers in it"),
    **dict.fromkeys(("ktable", "globalktable", "compact", "compacted", "changelog"), "table: true, with a key"),
}
#: keys of an event_time, as KEYS
KEYS_OF_AN_EVENT_TIME = {
    **dict.fromkeys(("idle", "idleness", "withidleness", "idletimeout"), "idle_after"),
    **dict.fromkeys(("column", "field", "name", "path"), "attribute"),
    **dict.fromkeys(
        ("unit", "units", "precision", "timeunit", "format"),
        "resolution: milliseconds, microseconds or nanoseconds, for an int64",
    ),
}
#: keys at the top of the file, as KEYS
KEYS_OF_THE_FILE = {
    **dict.fromkeys(("name", "id", "applicationid", "jobname", "app"), "pipeline"),
    **dict.fromkeys(
        ("sources", "source", "inputs", "input", "topics", "tables", "schemas"),
        "streams with the inputs and the outputs",
    ),
    **dict.fromkeys(("sinks", "sink", "outputs", "output"), "streams, and output of an operator with their names"),
    **dict.fromkeys(("steps", "queries", "nodes", "transforms", "processors", "windows"), "operators with a list"),
    "window": "window of an operator, under operators",
    **dict.fromkeys(("watermark", "watermarks", "eventtime"), "event_time of a stream, with attribute and lag"),
    **dict.fromkeys(("parallelism", "numstreamthreads"), "buckets"),
    **dict.fromkeys(("checkpointdir", "checkpointlocation", "statedir"), "checkpoint with a folder"),
    **dict.fromkeys(("processingguarantee", "guarantee"), "delivery: exactly_once or at_least_once"),
    **dict.fromkeys(("bootstrapservers", "brokers"), "the properties of the Kafka clients under the key kafka"),
}
CHANGES = "updates with a session or slidingTime window, or early: count(1) with another one"
#: key -> words for its value in other systems -> what to write
VALUES = {
    "emit": {
        "changes": CHANGES,
        "update": CHANGES,
        **dict.fromkeys(("emitchanges", "onupdate", "onwindowupdate"), CHANGES),
        **dict.fromkeys(("append", "suppress", "emitfinal", "onclose", "onwindowclose", "emitonwindowclose"), "final"),
    },
    "keep": {
        **dict.fromkeys(("newest", "latest", "latestbyoffset"), "last"),
        **dict.fromkeys(("oldest", "earliest", "earliestbyoffset"), "first"),
    },
    "algorithm": {
        "full": "outer", "fullouter": "outer", "leftouter": "leftOuter", "rightouter": "rightOuter", "cross": "inner",
    },
    "clock": {"wall": "processing", "system": "processing", "record": "records", "eventtime": "records"},
    "start": {"oldest": "earliest", "beginning": "earliest", "newest": "latest", "end": "latest"},
    "delivery": {"exactlyoncev2": "exactly_once", "atleastonce": "at_least_once", "exactlyonce": "exactly_once"},
    "resolution": {
        **dict.fromkeys(("ms", "millis"), "milliseconds"),
        **dict.fromkeys(("us", "micros"), "microseconds"),
        **dict.fromkeys(("ns", "nanos"), "nanoseconds"),
        **dict.fromkeys(
            ("s", "sec", "seconds"),
            "milliseconds, microseconds or nanoseconds; seconds are a timestamp or a float64 attribute",
        ),
    },
}  # fmt: skip
#: words for the timestamp of a record where an attribute is expected, as KEYS
RECORD_TIMESTAMPS = ("timestamp", "rowtime", "recordtimestamp", "recordtime", "kafkatimestamp", "messagetimestamp")
#: words for operators -> what to write
OPERATORS = {
    "filter": "map with the input stream, and where with the condition",
    "functor": "map with the input stream, and perhaps where with a condition",
    "select": "map with the input stream, and output with its attributes",
    "flatmap": "custom with the input stream, and handler with a Python class",
    **dict.fromkeys(
        ("groupby", "groupbykey", "keyby", "windowedby", "count"), "aggregate with the input stream, and a window"
    ),
    "reduce": "aggregate with the input stream, and a window",
    "deduplicate": "dedup with the input stream, by with the key, and within with the length of a period",
    "distinct": "dedup with the input stream, by with the key, and within with the length of a period",
    "dropduplicates": "dedup with the input stream, by with the key, and within with the length of a period",
    "dropduplicateswithinwatermark": "dedup with the input stream, by with the key, and within: eventTime(seconds)",
    **dict.fromkeys(
        ("topn", "topk", "top", "rank", "orderby", "limit"),
        "sort with the input stream, a window, order_by, and limit with the number of tuples",
    ),
    **dict.fromkeys(("union", "unionall", "merge"), "a list of streams as input of an operator: aggregate: [a, b]"),
    **dict.fromkeys(
        ("process", "transform", "apply", "processfunction"), "custom with the input stream, and handler with a class"
    ),
    "punctor": "mark_when of a stream, which makes window marks, and an operator that reads the stream",
}


def clause_of_another_system(text: str) -> Fault | None:
    """What to write instead of a window clause of another system; None if it is not known as one."""
    if match := CLAUSES_OF_SPL.match(text):
        clause = match["clause"].rstrip()
        return Fault("the clause without its stream, which another key of the operator names", text.strip(), clause)
    if text.rstrip().endswith(";"):
        return Fault("a clause without a semicolon at its end", text.strip(), text.rstrip().rstrip("; "))
    if ";" in ARGUMENTS.sub("", text):
        return Fault("commas between the parts of a clause", text.strip(), re.sub(r"\s*;\s*", ", ", text.strip()))
    if (choices := BETWEEN.sub(_or, text)) != text:
        return Fault(
            "the word or between two policies, each of which flushes the window", text.strip(), choices.strip()
        )
    start = text.strip().lower().rpartition("org.apache.")[2].removeprefix("table(").lstrip()
    meaning = next((meaning for pattern, meaning in CLAUSES if re.match(pattern, start)), None)
    return Fault(meaning, text.strip()) if meaning else None


def _or(match: re.Match[str]) -> str:
    """The word `or` in place of another sign between two policies. Signs inside of parentheses are not changed."""
    before = match.string[: match.start()]
    return " or " if before.count("(") == before.count(")") else match[0]


def word_of_sql(word: str, *, name: bool = False) -> str | None:
    """What to write instead of a word in an expression; None if it is not known. `name`: it may be an attribute."""
    return WORDS.get(word.lower()) or (None if name else WORDS_IN_SQL.get(word.lower()))


def small_word(word: str) -> str | None:
    """The word in small letters, if it is a word of this grammar that stands in other letters; None otherwise."""
    return word.lower() if word.lower() in SMALL and word not in SMALL else None


def part_of_another_system(kind: str, word: str) -> str | None:
    """What to write instead of a part that a window of this kind does not have; None if it is not known."""
    return PARTS.get(kind, {}).get(_plain(word))


def policy_of_another_system(word: str) -> str | None:
    """What to write instead of a word among the policies of a window; None if it is not known."""
    return POLICIES.get(_plain(word))


def join_window_of_another_system(text: str) -> str | None:
    """What to write instead of such a window of a join over event time; None if it is not known."""
    return next((meaning for pattern, meaning in JOIN_CLAUSES if re.match(pattern, text.strip().lower())), None)


def size_of_another_system(kind: str, word: str) -> str | None:
    """The size of a window of this kind that another system calls `word`; None if it is not known."""
    return SIZES.get(kind, {}).get(_plain(word))


def key_of_another_system(key: str, keys: Collection[str]) -> str | None:
    """What to write instead of a key of an operator, which has the keys `keys`; None if it is not known."""
    kinds = {"map": KEYS_OF_A_MAP, "join": KEYS_OF_A_JOIN, "dedup": KEYS_OF_A_DEDUP, "sort": KEYS_OF_A_SORT}
    of_this_kind = next((words for kind, words in kinds.items() if kind in keys), {})
    return (KEYS | of_this_kind).get(_plain(key))


def key_of_a_stream_elsewhere(key: str) -> str | None:
    """What to write instead of a key of a stream or of its event_time; None if it is not known."""
    return KEYS_OF_A_STREAM.get(_plain(key))


def names_timestamp_of_record(word: str) -> bool:
    """Whether a word that is no attribute seems to mean the timestamp of the record."""
    return _plain(word) in RECORD_TIMESTAMPS


def key_of_an_event_time_elsewhere(key: str) -> str | None:
    """What to write instead of a key of an event_time; None if it is not known."""
    return (KEYS_OF_A_STREAM | KEYS_OF_AN_EVENT_TIME).get(_plain(key))


def key_of_the_file_elsewhere(key: str) -> str | None:
    """What to write instead of a key at the top of the file; None if it is not known."""
    of_kafka = KEYS_OF_THE_FILE["brokers"] if "." in key else None
    return KEYS_OF_THE_FILE.get(_plain(key), of_kafka)


def operator_of_another_system(key: str) -> str | None:
    """What to write instead of a word for an operator; None if it is not known."""
    return OPERATORS.get(_plain(key))


def type_of_another_system(text: str) -> str:
    """What to know about a type that has no equal here; empty if nothing is."""
    word = re.split(r"[(<\s]", text.strip().lower(), maxsplit=1)[0]
    return TYPES.get(word, "")


def _plain(key: str) -> str:
    """A word in the spelling of the tables: without underscores and in small letters."""
    return re.sub(r"[\s_.-]", "", key).lower()


def value_of_another_system(key: str, value: str) -> str | None:
    """What to write instead of the value of a key that has a fixed set of words; None if it is not known."""
    return VALUES.get(key, {}).get(_plain(value))


def param_of_spl(line: str) -> str | None:
    """What to write instead of a line such as `param: groupBy: symbol`, which is no YAML; None if it is another one."""
    return KEYS["param"] if re.match(r"(- )?param\b", line) else None


def line_of_spl(line: str) -> str | None:
    """The window clause in a line such as `window: trades : sliding, count(5);`, which is no YAML; None without one."""
    match = re.match(r"(- )?window\w*\s*:\s*(?P<rest>.*)", line)
    fault = CLAUSES_OF_SPL.match(match["rest"]) if match else None
    return fault["clause"].rstrip() if fault else None

"""Checks tables, the joins whose right side is one (rules M1 to M8), and aggregates over them (EN10, EN15)."""

from __future__ import annotations

from sluice.config.checks.expression_checks import ExpressionChecks
from sluice.config.checks.records.member_checks import keys_of
from sluice.config.checks.stream_checks import Streams
from sluice.config.syntax.file_models.operator_models import AggregateShape, JoinShape, inputs_of
from sluice.config.syntax.file_models.stream_models import StreamShape
from sluice.config.syntax.window_clause import ParsedClause
from sluice.model.expressions import Attribute
from sluice.model.spec import Count, Side, Sliding, Window
from sluice.model.windows.table_window import TableWindow

#: the keys of a stream that say something about marks and event times, which a table does not have
OF_STREAMS = ("event_time", "mark_when", "marks_in", "watermarks")
#: the keys of a join that say which tuples a side stores: a table stores its rows, and the other side nothing
OF_WINDOWS = ("window", "window_left", "window_right", "partition_by_left", "partition_by_right")
#: the windows of a join with a table: a left tuple is not stored, and of each key the newest row is
NO_WINDOW, ROWS = Sliding(Count(0)), Sliding(Count(1), partitioned=True)


def check_tables(streams: Streams) -> None:
    tables = [name for name, shape in streams.file.streams.items() if shape.table]
    for name in tables:
        check_stream(streams, name, streams.file.streams[name])
    for index, operator in enumerate(streams.operators):
        for inner, name in inputs_of(operator):
            on_the_right = isinstance(operator, JoinShape) and name == operator.join.right
            if name in tables and not (on_the_right or isinstance(operator, AggregateShape)):
                readers = f"the right side of a join and an aggregate read a table, as {name} is"
                expected = f"a stream that is no table: {readers} (rule M1)"
                streams.report.problem(streams.path(index, *inner), expected)
        if isinstance(operator, JoinShape) and operator.join.left == operator.join.right in tables:
            expected = f"another stream than the table {operator.join.right} on the right (rule M1)"
            streams.report.problem(streams.path(index, "join", "left"), expected)
    if tables and streams.file.merge != "arrival":
        expected = f"arrival, as the table {tables[0]} is loaded before records of earlier times are handled (rule M3)"
        streams.report.problem(("merge",), expected)


def check_stream(streams: Streams, name: str, shape: StreamShape) -> None:
    path, report = ("streams", name), streams.report
    if name in streams.writers:
        writer = streams.operators[streams.writers[name]].name
        report.problem((*path, "table"), f"false, as {writer} writes this stream: a table is read from Kafka (rule M1)")
    if not keys_of(shape) and not streams.shaped.partly((*path, "key")):
        expected = "a key, as the stream is a table: a record without a value deletes the row of its key (rule M4)"
        report.problem((*path, "key"), expected, None)
    for key in OF_STREAMS:
        if key in shape.model_fields_set and getattr(shape, key) not in (None, False):
            report.problem((*path, key), f"no {key}, as the stream is a table (rule M6)", key)


def is_table(checks: ExpressionChecks, shape: JoinShape) -> bool:
    """Whether the right side of the join is a table."""
    stream = checks.streams.file.streams.get(shape.join.right)
    return stream is not None and stream.table


def check_join(checks: ExpressionChecks, index: int, shape: JoinShape, table: Side) -> None:
    """Checks that a join with a table has no key that a table does not allow, and that its equalities are the table's
    key (M2).
    """
    report = checks.report
    for key in OF_WINDOWS:
        if key in shape.model_fields_set and getattr(shape, key):
            expected = f"no {key}, as {shape.join.right} is a table: of each key it has the newest row (rule M2)"
            report.problem(checks.path(index, key), expected, key)
    if shape.algorithm not in ("inner", "leftOuter"):
        expected = f"inner or leftOuter, as {shape.join.right} is a table: its rows are not emitted alone (rule M5)"
        report.problem(checks.path(index, "algorithm"), expected)
    keys = keys_of(checks.streams.file.streams[shape.join.right])
    if not keys or len(table.equality) < len(shape.equality_right):
        return
    names = [e.name for e in table.equality if isinstance(e, Attribute)]
    if sorted(names) != sorted(keys) or len(names) < len(table.equality):
        expected = f"the key of the table {shape.join.right} ({', '.join(keys)}), each attribute once (rule M2)"
        written_keys = ", ".join(shape.equality_right) or None
        report.problem(checks.path(index, "equality_right"), expected, written_keys)


# ---- aggregates over tables ------------------------------------------------------------------------------------------

#: by the word of a kind of window: why it has no meaning over a table, and what to write instead
INSTEAD = {
    "tumbling": "table, count(n) or table, time(s): the rows of a table stay when a window flushes",
    "table": "table, count(n) or table, time(s): no value of a row triggers a window over a table",
    "sliding": "sliding, count(n) or table: a row that changes has no time at which it leaves a window",
}
BY_TIME = "table, with group_by over the row's time, as in group_by: [floorTime(time, 60)]: a table has no event time"


def over_table(
    checks: ExpressionChecks, index: int, shape: AggregateShape, window: Window, clause: ParsedClause
) -> Window:  # fmt: skip
    """The window as one over a table, if the input is a table. Reports a window that has no meaning there (EN10,
    EN15).
    """
    stream, path = checks.streams.file.streams.get(shape.aggregate), checks.path(index, "window")
    if stream is None or not stream.table:
        if clause.whole:
            expected = f"a window of a stream, as {shape.aggregate} is no table (table: true; rule EN10)"
            checks.report.problem(path, expected, shape.window)
        return window
    key = tuple(keys_of(stream))
    rows = window.over_table(key)
    if rows is not None:
        return rows
    if not (clause.faults or clause.mistyped):
        expected = INSTEAD.get(clause.kind.word, BY_TIME)
        checks.report.problem(path, f"{expected} (rule EN15), as {shape.aggregate} is a table", shape.window)
    return TableWindow(key=key)

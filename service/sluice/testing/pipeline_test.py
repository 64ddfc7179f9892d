"""Runs a pipeline file on events that a test gives one by one, without Kafka and Spark (docs/testing.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Self

from sluice.columns.json_columns import nanoseconds
from sluice.config.load import load, load_text
from sluice.config.syntax import durations
from sluice.model.spec import Pipeline
from sluice.model.stream_marks import require_scope
from sluice.model.topology import external_inputs
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import EXPECTED, clock_time, too_large
from sluice.replayer.player import Player, with_origin
from sluice.time_units import MAX_TIME, SECOND

#: maximum number of dead letters that are named
MAX_LETTERS = 3


def differences(
    title: str, expected: Sequence[Any], got: Sequence[Any], dead_letters: Sequence[Mapping[str, Any]] = ()
) -> str | None:
    """The text; None if both are equal. `dead_letters` that came meanwhile are named, because they may be the cause."""
    if len(expected) == len(got) and all(first == second for first, second in zip(expected, got, strict=True)):
        return None
    lines = [f"{title}: expected {_count(expected)}, got {_count(got)}", *_lines(expected, got)]
    if dead_letters:
        lines.append(f"{len(dead_letters)} dead letters came meanwhile:")
        lines += [f"    {letter['reason']}" for letter in dead_letters[:MAX_LETTERS]]
    return "\n".join(lines)


def _lines(expected: Sequence[Any], got: Sequence[Any]) -> Iterator[str]:
    pairs = _aligned(expected, got)
    for expected_output, output in pairs:
        if expected_output is None:
            yield f"  + {output!r}"
        elif output is None:
            yield f"  - {expected_output!r}"
        elif expected_output == output:
            yield f"    {output!r}"
        else:
            yield f"  - {expected_output!r}"
            yield f"  + {output!r}"
            if isinstance(expected_output, Mapping) and isinstance(output, Mapping):
                yield f"      {'; '.join(_attributes(expected_output, output))}"


def _attributes(expected: Mapping[str, Any], got: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*expected, *got]):
        if name not in got:
            yield f"{name} is missing"
        elif name not in expected:
            yield f"{name} was not expected"
        elif expected[name] != got[name]:
            yield f"{name}: expected {expected[name]!r}, got {got[name]!r}"


def _aligned(expected: Sequence[Any], got: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Pairs of what was expected and found; None stands for nothing. Equal ones are paired in order."""
    matched = SequenceMatcher(None, list(map(repr, expected)), list(map(repr, got)), autojunk=False)
    for _, start, stop, first, last in matched.get_opcodes():
        for index in range(max(stop - start, last - first)):
            yield (
                expected[start + index] if start + index < stop else None,
                got[first + index] if first + index < last else None,
            )


def _count(outputs: Sequence[Any]) -> str:
    return f"{len(outputs)} {'output' if len(outputs) == 1 else 'outputs'}"


#: a time: seconds since 1970, or a text in ISO 8601
Time = int | float | Decimal | str
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mark:
    """A punctuation mark among the outputs of a stream: "window" or "final"."""

    word: str

    def __repr__(self) -> str:
        return self.word.upper()


@dataclass(frozen=True, slots=True)
class Watermark:
    """A watermark among the outputs of a stream that writes them; its time as `sluice replay` prints it."""

    time: str


WINDOW, FINAL = Mark("window"), Mark("final")
#: what a stream may have written: a tuple, a mark, or a watermark
Output = Mapping[str, Any] | Mark | Watermark


class PipelineTest:
    """A pipeline that a test feeds. Each event takes effect at once, at the present time of the operator clock.

    >>> test = PipelineTest('''
    ... pipeline: sums
    ... streams:
    ...   numbers: {topic: numbers, schema: {x: int64}}
    ...   sums: {topic: sums}
    ... operators:
    ...   - {name: sum, aggregate: numbers, window: "tumbling, count(2)", output: {sums: {sum: Sum(x)}}}
    ... ''')
    >>> test.send("numbers", {"x": 1}, {"x": 2}).expect("sums", {"sum": 3}, WINDOW)
    """

    def __init__(
        self, pipeline: str | Path | Pipeline, *, start: Time = 0, partitions: int = 1,
        environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """`pipeline` is the path of a pipeline file, its text (with line breaks), or a loaded Pipeline.

        start         the operator clock at the beginning; timers count from there, unless the file has `clock_origin`
        partitions    the number of topic partitions of each input; tuples are spread over them by their keys
        environment   the values of ${NAME} in the file; None: references are not replaced

        Raises PipelineError if the file is wrong.
        """
        self.pipeline = with_origin(_loaded(pipeline, environment), None)
        self._now = _clock_time(start)
        if self.pipeline.settings.clock_origin in (None, 0):
            self.pipeline = with_origin(self.pipeline, str(Decimal(self._now).scaleb(-9)))
        self._counts = {stream.name: partitions for stream in self.pipeline.inputs}
        require_scope(self.pipeline, self._counts)
        self._cutter = Cutter(
            external_inputs(self.pipeline), self.pipeline.settings.registry, partitions if partitions > 1 else None
        )
        self._player = Player(self.pipeline, self._counts)
        self._state = self._player.graph.initial()
        self._events = 0
        self._written: dict[str, list[Output]] = {stream.name: [] for stream in self.pipeline.streams.values()}
        #: by stream: the number of outputs that `expect` has compared
        self._compared: dict[str, int] = {}
        self._dead: list[Record] = []
        self._dead_compared = 0
        self._feed({})

    # ---- the clock ---------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The operator clock, in seconds since 1970."""
        return self._now / SECOND

    def advance(self, duration: float | str) -> Self:
        """Moves the clock by seconds, or by a duration such as "5m". Timers that become due fire."""
        seconds = durations.seconds(duration) if isinstance(duration, str) else duration
        if seconds is None:
            raise ValueError(f"expected seconds or a duration such as 5m, got {duration}")
        return self._move(self._now + nanoseconds(seconds))

    def move_to(self, time: Time) -> Self:
        """Moves the clock to a time that is not before the present one. Timers that become due fire."""
        return self._move(_clock_time(time))

    def _move(self, now: int) -> Self:
        if now < self._now:
            raise ValueError(f"the clock cannot go back from {self.now:g} s to {now / SECOND:g} s")
        if now >= MAX_TIME:
            raise ValueError(f"the clock cannot go beyond the year 2262, from {self.now:g} s to {now / SECOND:g} s")
        self._now = now
        self._feed({})
        return self

    # ---- inputs ------------------------------------------------------------------------------------------------------

    def send(self, stream: str, *tuples: Mapping[str, Any], topic_partition: int | None = None) -> Self:
        """Tuples of an input stream, with values as in JSON. Without `topic_partition` their keys choose it.

        A tuple without the attribute that `record_timestamp` names has the present time of the clock in it.
        """
        for values in tuples:
            self._feed({"stream": stream, "tuple": dict(values)}, topic_partition)
        return self

    def record(
        self, stream: str, value: bytes | str | None, *, key: bytes | str | None = None,
        headers: Mapping[str, bytes | str] | None = None, topic_partition: int | None = None,
        timestamp: Time | None = None,
    ) -> Self:  # fmt: skip
        """A Kafka record, which is decoded as the service decodes it. One that cannot be decoded is a dead letter.

        `timestamp` is the timestamp of the record; without it, the present time of the clock.
        """
        parts = {"value": value, "key": key, "headers": dict(headers or {})}
        record = {name: part for name, part in parts.items() if part} | (
            {} if timestamp is None else {"timestamp": timestamp}
        )
        self._feed({"stream": stream, "record": record}, topic_partition)
        return self

    def mark(self, stream: str, *, topic_partition: int | None = None) -> Self:
        """A window mark, in one topic partition or in all."""
        return self._in_each({"stream": stream, "punct": "window"}, topic_partition)

    def watermark(self, stream: str, time: Time, *, topic_partition: int | None = None) -> Self:
        """A watermark, in one topic partition or in all."""
        return self._in_each({"stream": stream, "watermark": time}, topic_partition)

    def final(self, *streams: str) -> Self:
        """The final marks of all topic partitions of these inputs; without arguments of all inputs."""
        for stream in streams or self._counts:
            self._in_each({"stream": stream, "punct": "final"}, None)
        return self

    def restart(self) -> Self:
        """Saves the state and loads it again, as a new start of the service does. No output may depend on it."""
        saved = self._player.graph.save(self._state)
        self._player = Player(self.pipeline, self._counts)
        self._state = self._player.graph.load(saved)
        return self

    def _in_each(self, event: Record, topic_partition: int | None) -> Self:
        count = self._counts.get(event["stream"], 1)
        for number in range(count) if topic_partition is None else [topic_partition]:
            self._feed(event, number)
        return self

    def _feed(self, event: Record, topic_partition: int | None = None) -> None:
        """Runs one event. Raises EventError if the pipeline cannot use it."""
        where = {} if topic_partition is None else {"topic_partition": topic_partition}
        timed = {"at": Decimal(self._now).scaleb(-9)} | event | where
        batch = self._cutter.batch([(f"event {self._events}", timed)])
        self._events += 1
        for record in self._player.feed(self._state, batch):
            self._take(record)

    def _take(self, record: Record) -> None:
        if "dead_letter" in record:
            self._dead.append(record["dead_letter"])
        elif "tuple" in record:
            self._written[record["stream"]].append(record["tuple"])
        elif "watermark" in record:
            self._written[record["stream"]].append(Watermark(record["watermark"]))
        else:
            self._written[record["stream"]].append(Mark(record["punct"]))

    # ---- outputs -----------------------------------------------------------------------------------------------------

    def outputs(self, stream: str) -> list[Output]:
        """All that was written to a stream so far, in order: tuples, marks and watermarks."""
        return list(self._known(stream))

    def tuples(self, stream: str) -> list[Record]:
        """The tuples that were written to a stream so far."""
        return [dict(output) for output in self._known(stream) if isinstance(output, Mapping)]

    def marks(self, stream: str) -> list[Mark]:
        """The marks that were written to a stream so far."""
        return [output for output in self._known(stream) if isinstance(output, Mark)]

    @property
    def dead_letters(self) -> list[Record]:
        """The dead letters so far: stream, reason, and the tuple or the record."""
        return list(self._dead)

    def expect(self, stream: str, *expected: Output) -> Self:
        """Asserts that exactly these outputs were written to a stream since the last `expect` of this stream.

        Values of tuples may be `pytest.approx(...)`. The message of the AssertionError has the outputs line by line.
        """
        __tracebackhide__ = True
        return self._expect(stream, expected, self._new(stream))

    def expect_tuples(self, stream: str, *expected: Mapping[str, Any]) -> Self:
        """As `expect`, but ignores marks and watermarks."""
        __tracebackhide__ = True
        return self._expect(stream, expected, [output for output in self._new(stream) if isinstance(output, Mapping)])

    def expect_nothing(self) -> Self:
        """Asserts that no stream has outputs, and that there are no dead letters, since they were last expected."""
        __tracebackhide__ = True
        for stream in self._written:
            self.expect(stream)
        return self.expect_dead_letters()

    def expect_dead_letters(self, *reasons: str) -> Self:
        """Asserts that as many dead letters came since the last call, each with a reason that contains this text."""
        __tracebackhide__ = True
        actual = [letter["reason"] for letter in self._since()]
        self._dead_compared = len(self._dead)
        equal = len(actual) == len(reasons) and all(
            text in reason for text, reason in zip(reasons, actual, strict=False)
        )
        message = None if equal else differences("reasons of dead letters", list(reasons), actual)
        _fail(message)
        return self

    def _new(self, stream: str) -> list[Output]:
        """The outputs of a stream since they were last expected."""
        return self._known(stream)[self._compared.get(stream, 0) :]

    def _expect(self, stream: str, expected: Sequence[Any], outputs: Sequence[Output]) -> Self:
        """Asserts that the outputs are as expected; marks all outputs of the stream so far as compared."""
        __tracebackhide__ = True
        self._compared[stream] = len(self._known(stream))
        _fail(differences(f"{stream} at {self.now:g} s", list(expected), outputs, self._since()))
        return self

    def _since(self) -> list[Record]:
        return self._dead[self._dead_compared :]

    def _known(self, stream: str) -> list[Output]:
        if stream not in self._written:
            raise KeyError(f"unknown stream {stream}; the streams are {', '.join(self._written)}")
        return self._written[stream]


def _fail(message: str | None) -> None:
    """Fails the test with this message; does nothing for None."""
    __tracebackhide__ = True
    if message is not None:
        raise AssertionError(message)


def _loaded(pipeline: str | Path | Pipeline, environment: Mapping[str, str] | None) -> Pipeline:
    if isinstance(pipeline, Pipeline):
        return pipeline
    if isinstance(pipeline, str) and "\n" in pipeline:
        return load_text(pipeline, "pipeline.yaml", environment=environment)
    return load(Path(pipeline), environment=environment)


def _clock_time(time: Time) -> int:
    """The time in nanoseconds. Raises ValueError if the clock cannot have it."""
    try:
        return clock_time(time)
    except (ArithmeticError, TypeError, ValueError):
        expected = f"the clock must have {EXPECTED}, between the years 1677 and 2262"
        raise ValueError(f"{expected}, got {time!r}{too_large(time)}") from None

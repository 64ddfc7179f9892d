"""The events that a window gets if a condition puts marks around tuples, and if marks wait for each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.spec import early_oracle, oracle

Event = dict[str, Any]
#: an event, and the number of the one that brought it about
Caused = tuple[int, Event]
#: the conditions of random streams, as the file has them and as Python has them
CONDITIONS: dict[str, Callable[[Event], bool]] = {
    "b": lambda values: values["b"],
    "i > 2": lambda values: values["i"] > 2,
    "1 % n == 0": lambda values: values["n"] != 0 and 1 % values["n"] == 0,  # by 0: no value
}


def marked(events: list[Event], before: str | None, after: str | None) -> Iterator[Caused]:
    """The events with the marks that the conditions put before and after their tuples."""
    for number, event in enumerate(events):
        mark = {"at": event["at"], "topic_partition": source_of(event), "punct": "window"}
        holds = [bool("tuple" in event and c and CONDITIONS[c](event["tuple"])) for c in (before, after)]
        yield from (
            (number, one) for one, is_there in ((dict(mark), holds[0]), (event, True), (mark, holds[1])) if is_there
        )


class Alignment:
    """Holds back what a topic partition sends behind its mark, until all have sent theirs or are final."""

    def __init__(self, sources: int) -> None:
        self.live = set(range(sources))
        self.marked: set[int] = set()
        self.waiting: list[Event] = []

    def feed(self, event: Event) -> Iterator[Event]:
        """What a window gets, as if all came from one topic partition."""
        yield {}  # the clock moves
        if not {"tuple", "punct"} & event.keys():
            return
        self.waiting.append(event)
        while True:
            free = [e for e in self.waiting if source_of(e) not in self.marked]
            if free:
                self.waiting = [e for e in self.waiting if e is not free[0]]
                yield from self.handle(free[0])
            elif self.marked and self.marked >= self.live:
                self.marked = set()
                yield {"punct": "window"}
            else:
                return

    def handle(self, event: Event) -> Iterator[Event]:
        source = source_of(event)
        if source not in self.live:
            return
        if event.get("punct") == "window":
            self.marked.add(source)
        elif event.get("punct") == "final":
            self.live.remove(source)
            if not self.live:
                yield {"punct": "final"}
        else:
            yield {**event, "topic_partition": 0}


class Everywhere:
    """Each mark is for the whole stream. What a topic partition sends behind its final mark counts for nothing."""

    def __init__(self, sources: int) -> None:
        self.live = set(range(sources))

    def feed(self, event: Event) -> Iterator[Event]:
        """What a window gets, as if all came from one topic partition."""
        source = source_of(event)
        if not {"tuple", "punct"} & event.keys() or source not in self.live:
            yield {}  # the clock moves
        elif event.get("punct") == "final":
            self.live.remove(source)
            yield {} if self.live else {"punct": "final"}
        else:
            yield {**event, "topic_partition": 0}


def source_of(event: Event) -> int:
    return int(event.get("topic_partition", 0))


def run(case: dict[str, Any]) -> list[Event]:
    """The output of an aggregate over such a stream, which may have early results."""
    operator, events = case["operator"], case["input"]
    sources = 1 + max(map(source_of, events), default=0)
    when = operator.get("mark_when", {})
    caused = list(marked(events, when.get("before"), when.get("after")))
    scopes: dict[str, type[Alignment | Everywhere]] = {"aligned": Alignment, "any": Everywhere}
    if operator.get("marks_in") in scopes:
        scope = scopes[operator["marks_in"]](sources)
        caused, sources = [(n, out) for n, event in caused for out in scope.feed(event)], 1
    given = [{**event, "at": events[n]["at"]} for n, event in caused]
    made = oracle.Operator(operator, sources)
    early = early_oracle.policy(operator.get("early", ""))
    records = early_oracle.Early(made, *early).run(given) if any(early) else made.run(given)
    return [record | {"after": caused[record["after"]][0]} for record in records]

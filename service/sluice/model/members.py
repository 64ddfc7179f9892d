"""Where a record has an attribute, and how the values of the attribute are spelled there (PA1 to PA17).

A path is a tuple of steps: the name of a member of an object, or the index of an element of a list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluice.model.types import Schema, StructType, Type

Steps = tuple[str | int, ...]
#: the parts of a record beside its value in which a path may begin (PA3)
KEY, HEADER = "key", "header"
#: the path of the whole value (PA1)
WHOLE = "$"
#: unit of a time -> its nanoseconds
UNITS = {"d": 86_400_000_000_000, "s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
#: name of a logical type in the schemas of Kafka Connect -> the unit of the numbers, which are times since 1970
CONNECT_TIMES = {
    "org.apache.kafka.connect.data.Timestamp": "ms", "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us", "io.debezium.time.NanoTimestamp": "ns",
    "org.apache.kafka.connect.data.Date": "d", "io.debezium.time.Date": "d",
}  # fmt: skip
#: the spellings of exact numbers in JSON (DE18)
NUMBER, TEXT, BASE64 = "number", "string", "base64"
#: a name that needs no quotes in a path
NAME = re.compile(r"[^\W\d]\w*")
#: the most steps of a path: nested less deeply than the JSON decoder reads
MAX_STEPS = 60
#: the largest index of an element of a list
MAX_INDEX = 999


@dataclass(frozen=True, slots=True)
class Pairs:
    """The paths within an element of a list that is an entry of a map. The value is at the first path that exists."""

    key: Steps
    value: tuple[Steps, ...]


@dataclass(frozen=True, slots=True)
class Spelling:
    """How the values of an attribute are spelled in a record.

    coerce    whether a number, a boolean or a text counts as its text (PA10)
    unit      the unit of a number that is a time, a word of UNITS; "": seconds, and texts are written (PA11)
    pattern   the form of texts that are times, in the directives of `strptime`; "": ISO 8601 (PA12)
    zone      the zone of such a text without a zone; "": UTC (PA13)
    numbers   how exact numbers are written, also inside of other values, and with BASE64 read: a word below (DE18)
    pairs     where the entries of a map are if it is a list of objects; None: it is an object (PA17)
    inside    by member of a struct: its own spelling (PA16); others are coerced as the struct is
    """

    coerce: bool = False
    unit: str = ""
    pattern: str = ""
    zone: str = ""
    numbers: str = NUMBER
    pairs: Pairs | None = None
    inside: tuple[tuple[str, Spelling], ...] = ()

    def of(self, member: str) -> Spelling:
        """The spelling of a member of a struct."""
        return replace(dict(self.inside).get(member, Spelling(self.coerce)), numbers=self.numbers)

    def every(self) -> Iterator[Spelling]:
        """This spelling and those of the members inside."""
        yield self
        for _, inner in self.inside:
            yield from inner.every()


STRICT = Spelling()


@dataclass(frozen=True, slots=True)
class Member:
    """The member of a record that an attribute is read from and written to.

    path   its path in the value, or in the key if the attribute is in the key; (): the whole value or key; None: the
           member of the attribute's name
    part   where the path begins, for messages: KEY if the file's path begins with it, else ""
    """

    path: Steps | None = None
    spelling: Spelling = STRICT
    part: str = ""


#: by attribute: what differs from the member of its name in its strict spelling
Members = Mapping[str, Member]
NO_MEMBERS: Members = {}


def with_numbers(schema: Schema, members: Members, numbers: str) -> Members:
    """The members of all attributes, with this spelling of exact numbers."""
    by_name = {name: members.get(name, Member()) for name, _ in schema}
    return {
        name: replace(member, spelling=replace(member.spelling, numbers=numbers)) for name, member in by_name.items()
    }


def path_of(name: str, members: Members) -> Steps:
    """The path of an attribute in its part of the record: without one in the file the member of its name (PA2)."""
    member = members.get(name)
    return (name,) if member is None or member.path is None else member.path


def spelling_of(name: str, members: Members) -> Spelling:
    member = members.get(name)
    return STRICT if member is None else member.spelling


def part_of(name: str, members: Members) -> Steps:
    """The step in front of the path of an attribute in the key."""
    member = members.get(name)
    return (member.part,) if member is not None and member.part else ()


def paths_of(schema: Schema, members: Members) -> tuple[Steps, ...]:
    return tuple(path_of(name, members) for name, _ in schema)


def text_of(path: Steps) -> str:
    """The path as the pipeline file has it (PA1)."""
    texts = (
        f"[{step}]" if isinstance(step, int) else f".{step}" if NAME.fullmatch(step) else f"[{quoted(step)}]"
        for step in path
    )
    return "".join(texts).removeprefix(".") or WHOLE


def quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def place(name: str, members: Members) -> str:
    """Where the attribute is, for reasons of dead letters; empty if it is the member of its own name."""
    path, part = path_of(name, members), part_of(name, members)
    return "" if (*part, *path) in ((name,), ()) else f" at {text_of((*part, *path))}"


@dataclass(slots=True)
class PathTree:
    """The paths of several attributes as a tree. The paths of `attributes` (their numbers) end here."""

    attributes: list[int] = field(default_factory=list)
    inner: dict[str | int, PathTree] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: Sequence[Steps]) -> PathTree:
        root = cls()
        for number, path in enumerate(paths):
            node = root
            for step in path:
                node = node.inner.setdefault(step, cls())
            node.attributes.append(number)
        return root

    def nodes(self) -> Iterator[PathTree]:
        """This node and all nodes below it."""
        yield self
        for node in self.inner.values():
            yield from node.nodes()

    def everything(self) -> Iterator[int]:
        """The numbers of all attributes at or below this node."""
        yield from self.attributes
        for node in self.inner.values():
            yield from node.everything()

    @property
    def is_list(self) -> bool:
        """Whether the steps from here are indices; those of a list and of an object cannot both be there."""
        return any(isinstance(step, int) for step in self.inner)


def nested(schema: Schema, members: Members) -> Schema:
    """The attributes as the members of a record: of each message on their paths a tuple."""
    tree = PathTree.of(paths_of(schema, members))
    return tuple((str(step), _nested_type(schema, inner)) for step, inner in tree.inner.items())


def _nested_type(schema: Schema, tree: PathTree) -> Type:
    if tree.attributes:
        return schema[tree.attributes[0]][1]
    return StructType(tuple((str(step), _nested_type(schema, inner)) for step, inner in tree.inner.items()))

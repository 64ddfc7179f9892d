"""The corpus of record shapes: its records, what is known of them, and what a draft should compute, in plain Python.

`python -m tests.draft.shapes` drafts a file for each shape, runs it over the records as it is, and prints how many are
right. `--write` also writes the drafts into the corpus.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from sluice.config.load import load_text
from sluice.draft.draft_pipeline import draft
from sluice.draft.sampled_records import Sampled, sample
from sluice.model.errors import SluiceError
from sluice.replayer.player import replay

CORPUS = Path(__file__).parent / "corpus"
#: tuples of the drafted window
WINDOW = 10
#: the difference of two averages that are equal: a mean of decimals has six places at least
TOLERANCE = 1e-6
#: units of a second in which times since 1970 are written
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
#: seconds by which a watermark advances at least
MINIMUM_GAP = Fraction(1, 10)
STEP = re.compile(r"""\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|([^.\[\]]+)""")


class Shape(NamedTuple):
    """A shape: the events of its records, and a row of facts.yaml."""

    name: str
    events: Sequence[Mapping[str, Any]]
    facts: Mapping[str, Any]

    @property
    def records(self) -> list[Sampled]:
        parts = [event["record"] for event in self.events]
        return [
            Sampled(
                content(part.get("value")),
                content(part.get("key")),
                [(name, value.encode()) for name, value in part.get("headers", {}).items()],
            )
            for part in parts
        ]


class Drafted(NamedTuple):
    """A draft: its text, and what it says of the input.

    schema   path -> the row of the attribute with this path
    paths    name of an attribute -> its path
    stream   the input in the file
    """

    text: str
    schema: Mapping[str, Mapping[str, str]]
    paths: Mapping[str, str]
    file: Mapping[str, Any]
    stream: Mapping[str, Any]


class Output(NamedTuple):
    """What a draft has written.

    tuples   stream -> the values of its tuples, in their order; of a service only the tuples of a key are in order
    dead     the reasons of the dead letters
    """

    tuples: Mapping[str, Sequence[list[Any]]]
    dead: Sequence[str]
    in_order: bool = True


def shapes() -> dict[str, Shape]:
    facts = yaml.load((CORPUS / "facts.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    return {name: Shape(name, events(name), row) for name, row in facts.items()}


def events(name: str) -> list[Any]:
    lines = (CORPUS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def content(part: Any) -> bytes | None:
    """The bytes of a part of a record."""
    if part is None or isinstance(part, str):
        return part if part is None else part.encode()
    return json.dumps(part, separators=(",", ":"), ensure_ascii=False).encode()


def drafted(shape: Shape) -> Drafted:
    """The draft for the records of a shape."""
    return read_draft(draft("records", sample("records", shape.records, {}), "f.yaml", {}, {}))


def read_draft(text: str) -> Drafted:
    file = yaml.load(text, yaml.CSafeLoader)
    stream = next(stream for stream in file["streams"].values() if "schema" in stream)
    in_key = stream.get("key", {}).get("attributes", ())
    rows = {name: row if isinstance(row, dict) else {"type": row} for name, row in stream["schema"].items()}
    beside = stream.get("change", {})
    paths = {
        name: beside.get(name) or ("key" if name in in_key and is_text_key(stream) else row.get("from", name))
        for name, row in rows.items()
    }
    return Drafted(text, {paths[name]: row for name, row in rows.items()}, paths, file, stream)


def is_text_key(stream: Mapping[str, Any]) -> bool:
    """Whether the key is an attribute of its own: another one is in the value, too."""
    return "format" not in stream["key"] and stream["key"]["attributes"] == ["key"]


# ------------------------------------------------------------------------------------------- what the facts say


def differences(shape: Shape) -> Iterator[str]:
    """What is wrong with the draft for a shape, and with its results; nothing if it is right."""
    try:
        found = drafted(shape)
        written = list(replay(load_text(found.text, "f.yaml", environment=None), list(shape.events)))
    except (SluiceError, LookupError, TypeError, ValueError) as error:
        yield f"the draft does not run: {error!r}"
        return
    tuples: dict[str, list[list[Any]]] = defaultdict(list)
    for row in written:
        if "tuple" in row:
            tuples[row["stream"]].append(list(row["tuple"].values()))
    dead = [row["dead_letter"]["reason"] for row in written if "dead_letter" in row]
    yield from compared(shape, found, Output(tuples, dead))


def compared(shape: Shape, found: Drafted, output: Output) -> Iterator[str]:
    """What is wrong with a draft, and with its results."""
    yield from _time(shape, found)
    yield from _types(shape, found)
    yield from _results(shape, found, output)
    yield from _objects(shape, found, output)


def _time(shape: Shape, found: Drafted) -> Iterator[str]:
    suggested = re.search(r"event_time: \{attribute: (\w+)", found.text)
    name = suggested[1] if suggested and suggested[1] in found.paths else None
    expected = shape.facts["time"]
    if (name is None) != (expected is None) or (name and found.paths[name] not in expected):
        yield f"time: expected {expected}, got {found.paths.get(name or '')}"
    elif name and unit(shape, found.schema[found.paths[name]]) not in shape.facts["unit"]:
        yield f"unit of the time: expected {shape.facts['unit']}, got {found.schema[found.paths[name]]}"


def unit(shape: Shape, row: Mapping[str, str]) -> str:
    """How the time of an attribute is written. A date alone is ISO 8601; a change event has milliseconds."""
    if shape.facts.get("envelope") == "debezium":
        return "ms"
    return row.get("unit") or ("pattern" if "pattern" in row else "iso")


def _types(shape: Shape, found: Drafted) -> Iterator[str]:
    for path, expected in shape.facts.get("types", {}).items():
        row = found.schema.get(path)
        if row is not None and not isinstance(row["type"], str):  # options inside of the type
            fit = row["type"] == expected
        else:
            fit = fits(row and " ".join(filter(None, (row["type"], row.get("unit")))), expected)
        if not fit:
            yield f"type of {path}: expected {expected}, got {row}"


def fits(got: str | None, expected: str | None) -> bool:
    """Whether a type is one of those that are expected. `timestamp us?` and `timestamp? us` are the same."""
    if expected is None or got is None:
        return got == expected
    if expected == "?":
        return "?" in got
    return any(plain(got) == plain(option) for option in expected.split("|"))


def plain(type_: str) -> tuple[str, bool]:
    return type_.replace("?", ""), "?" in type_


# ------------------------------------------------------------------------------------------- what the draft computes


def _results(shape: Shape, found: Drafted, output: Output) -> Iterator[str]:
    operator = found.file["operators"][0]
    group = [found.paths[name] for name in operator.get("partition_by", ())]
    averaged = re.search(r"average_\w+': 'Average\((?:try\()?(?:float64\()?(\w+)", str(operator["output"]))
    number = found.paths[averaged[1]] if averaged else None
    yield from _role("group", group[0] if group else None, shape.facts["group"])
    yield from _role("average", number, shape.facts["average"])
    if len(output.dead) != shape.facts.get("dead", 0):
        yield f"dead letters: expected {shape.facts.get('dead', 0)}, got {len(output.dead)}, such as {output.dead[:1]}"
    got, expected = list(output.tuples.get("results", ())), list(averages(shape, group, number))
    if not output.in_order:
        got.sort(key=lambda row: str(row[: len(group)]))
        expected.sort(key=lambda row: str(row[0]))
    if not same(got, expected, len(group), averaged=number is not None):
        yield f"results: expected {expected[-1:]} as the last of {len(expected)}, got {got[-1:]} of {len(got)}"
    yield from _panes(shape, found, output, Averaged(group, number))


def _objects(shape: Shape, found: Drafted, output: Output) -> Iterator[str]:
    """What is wrong with the window over the objects of a list: the last of three operators."""
    unnested = [operator for operator in found.file["operators"] if "each" in operator]
    expected = shape.facts.get("each")
    if bool(unnested) != (expected is not None):
        yield f"each: expected {expected}, got {unnested}"
    if not unnested or expected is None:
        return
    lists, made = levels_of(found, unnested)
    wanted_lists = expected["list"] if isinstance(expected["list"], list) else [expected["list"]]
    if lists != wanted_lists:
        yield f"each: expected {wanted_lists}, got {lists}"
        return
    window = found.file["operators"][-1]
    (stream,) = window["output"]
    group = [made[name] for name in window.get("partition_by", ())]
    number = re.search(r"Average\((?:try\()?(?:float64\()?(\w+)", str(window))
    yield from _role("group of objects", group[0] if group else None, expected["group"])
    yield from _role("average of objects", made[number[1]] if number else None, expected["average"])
    got = sorted(output.tuples.get(stream, ()), key=lambda row: str(row[: len(group)]))
    wanted = sorted(of_objects(shape, lists, group, made[number[1]] if number else ""), key=str_of_group)
    if not same(got, wanted, len(group), averaged=number is not None):
        yield f"objects: expected {wanted[-1:]} as the last of {len(wanted)}, got {got[-1:]} of {len(got)}"


def levels_of(found: Drafted, unnested: Sequence[Mapping[str, Any]]) -> tuple[list[str], dict[str, str]]:
    """The paths of the lists, and by attribute of their objects its path: one that begins with `item` is in the object,
    one that begins with `item1` in the object around the last one but one.
    """
    lists, made = [], dict(found.paths)
    for left, operator in enumerate(unnested, 1 - len(unnested)):
        attribute, element = operator["each"].split(" as ")
        lists.append(made[attribute])
        (output,) = operator["output"].values()
        item = f"item{-left or ''}"
        made = {
            name: item + text.removeprefix(element) if re.match(rf"{element}\W", text) else made[text]
            for name, text in output.items()
        }
    return lists, made


def str_of_group(row: tuple[list[Any], int, float | None]) -> str:
    return str(row[0])


def of_objects(
    shape: Shape, lists: Sequence[str], group: Sequence[str], number: str
) -> Iterator[tuple[list[Any], int, float | None]]:
    """For each object: its group, the number of the last ten objects, and the mean of their numbers that are there."""
    seen: dict[str, list[Fraction | None]] = defaultdict(list)
    for record in rows(shape):
        for parts in objects_in(record, lists):
            key = [at(parts, name) for name in group]
            last = seen[str(key)] = [*seen[str(key)], as_number(at(parts, number), 0)][-WINDOW:]
            present = [one for one in last if one is not None]
            yield key, len(last), float(sum(present) / len(present)) if present else None


def objects_in(record: Mapping[str, Any], lists: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The record with each object of the last list as `item`, and those around it as `item1` and so on."""
    if not lists:
        yield dict(record)
        return
    for item in at(record, lists[0]) or ():
        outside = record["value"] if isinstance(record["value"], dict) else {}
        name = f"item{len(lists) - 1 or ''}"
        yield from objects_in({**record, "value": {**outside, name: item}}, lists[1:])


class Averaged(NamedTuple):
    """The paths of the group of a window, and of the number that is averaged; None: there is none."""

    group: Sequence[str]
    number: str | None


def _panes(shape: Shape, found: Drafted, output: Output, averaged: Averaged) -> Iterator[str]:
    """What is wrong with the window over event time, if the draft has one."""
    for operator in found.file["operators"]:
        if "timeInterval" not in operator.get("window", ""):
            continue
        (stream,) = operator["output"]
        lag = found.stream["event_time"]["lag"]
        got = sorted(output.tuples.get(stream, ()), key=str)
        expected = sorted(panes(shape, found, averaged, (length_of(operator["window"]), length_of(lag))), key=str)
        if [row[: len(averaged.group) + 2] for row in got] != [row[:-1] for row in expected]:
            yield f"{operator['name']}: expected {expected[-1:]} of {len(expected)}, got {got[-1:]} of {len(got)}"
        elif averaged.number and not all(equal(row[-1], mean[-1]) for row, mean in zip(got, expected, strict=True)):
            yield f"{operator['name']}: other averages, expected {expected[-1:]}, got {got[-1:]}"


def panes(shape: Shape, found: Drafted, averaged: Averaged, sizes: tuple[Fraction, Fraction]) -> Iterator[list[Any]]:
    """The panes that are over: the group, the start, the number of rows, and the mean of their numbers that are there.

    `sizes` has the length of the panes and the lag, in seconds.
    """
    length, lag = sizes
    name = found.stream["event_time"]["attribute"]
    path, part = found.paths[name], "change" if name in found.stream.get("change", {}) else "value"
    listed: dict[str, list[tuple[list[Any], Fraction, Fraction | None]]] = defaultdict(list)
    watermark = Fraction(-(10**12))
    for record in rows(shape):
        time = moment(at({**record, "value": record[part]}, path), found.schema[path], unit(shape, found.schema[path]))
        group = [at(record, name) for name in averaged.group]
        number = as_number(at(record, averaged.number), scale_of(shape, averaged.number)) if averaged.number else None
        start = time // length * length
        listed[str((group, start))].append((group, start, number))
        watermark = time - lag if time - lag >= watermark + MINIMUM_GAP else watermark
    for members in listed.values():
        group, start, _ = members[0]
        if start + length <= watermark:
            present = [number for *_, number in members if number is not None]
            text = datetime.fromtimestamp(int(start), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            yield [*group, text, len(members), float(sum(present) / len(present)) if present else None]


def length_of(text: str) -> Fraction:
    """The seconds of the first length in a text, such as 10m."""
    (number, letter) = re.search(r"(\d+)([smhd])", text).groups()  # type: ignore[union-attr]
    return int(number) * Fraction({"s": 1, "m": 60, "h": 3600, "d": 86_400}[letter])


def moment(value: Any, row: Mapping[str, str], written: str) -> Fraction:
    """The time of a value in seconds since 1970."""
    if written in UNITS:
        return Fraction(str(value)) / UNITS[written]
    if written == "pattern":
        time = datetime.strptime(value, row["pattern"])  # noqa: DTZ007 - the zone follows
    else:
        time = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", value))
    return Fraction((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())


def _role(role: str, got: str | None, expected: Sequence[str] | None) -> Iterator[str]:
    if (got is None) != (expected is None) or (got is not None and got not in (expected or ())):
        yield f"{role}: expected {expected}, got {got}"


def averages(shape: Shape, group: Sequence[str], number: str | None) -> Iterator[tuple[list[Any], int, float | None]]:
    """For each record: its group, the number of its last ten records, and the mean of their numbers that are there."""
    seen: dict[str, list[Fraction | None]] = defaultdict(list)
    for record in rows(shape):
        key = [at(record, path) for path in group]
        value = as_number(at(record, number), scale_of(shape, number)) if number else None
        last = seen[str(key)] = [*seen[str(key)], value][-WINDOW:]
        present = [one for one in last if one is not None]
        yield key, len(last), float(sum(present) / len(present)) if present else None


def scale_of(shape: Shape, number: str) -> int:
    """The scale of an attribute whose type in the facts is a decimal, else 0."""
    scale = re.search(r"\((?:\d+, )?(\d+)\)", shape.facts.get("types", {}).get(number, "") or "")
    return int(scale[1]) if scale else 0


def rows(shape: Shape) -> Iterator[dict[str, Any]]:
    """The parts of each record that a tuple comes from, as JSON values; `change`: what is around a row."""
    envelope = shape.facts.get("envelope")
    for event in shape.events:
        record = event["record"]
        value = parsed(record.get("value"))
        change = value.get("payload", value) if envelope == "debezium" and value is not None else None
        value = value if change is None else change["after"]
        if "columns" in shape.facts:
            value = row_of_csv(str(value), shape.facts)
        elif "format" in shape.facts:
            value = {"line": value, "value": value}
        if value is not None and (isinstance(value, dict | list) or "format" in shape.facts):
            headers = record.get("headers", {})
            yield {"value": value, "key": parsed(record.get("key")), "header": headers, "change": change}


def row_of_csv(text: str, facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields by the names of their columns; None for the row of names."""
    fields = text.split(facts.get("delimiter", ","))
    row = {name: parsed(field) if field else None for name, field in zip(facts["columns"], fields, strict=True)}
    return None if text == facts.get("head") else row


def parsed(part: Any) -> Any:
    if not isinstance(part, str):
        return part
    try:
        return json.loads(part, parse_float=Decimal)
    except ValueError:
        return part


def at(record: Mapping[str, Any], path: str) -> Any:
    """The value at a path of a record; None if there is none."""
    if path == "$":
        return record["value"]
    steps = [
        int(index) if index else json.loads(quoted) if quoted else word for index, quoted, word in STEP.findall(path)
    ]
    part = steps[0] if steps[0] in ("key", "header") and not path.startswith("[") else "value"
    value = record[part]
    for step in steps if part == "value" else steps[1:]:
        inside = isinstance(value, dict | list) and (step in value if isinstance(value, dict) else step < len(value))
        value = value[step] if inside else None
    return json.dumps(value) if part == "key" and len(steps) == 1 and isinstance(value, dict) else value


def as_number(value: Any, scale: int) -> Fraction | None:
    """The number, of a decimal in base64 with its scale; None for null."""
    if isinstance(value, dict) and value:
        return as_number(value["value"], value["scale"])
    if not isinstance(value, str) or not value:
        return None if value in (None, "") else Fraction(value)
    if re.fullmatch(r"[-0-9.eE+]*[0-9]", value):
        return Fraction(value)
    return None if not scale else Fraction(int.from_bytes(base64.b64decode(value), "big", signed=True), 10**scale)


def same(
    got: Sequence[list[Any]], expected: Sequence[tuple[list[Any], int, float | None]], keys: int, *, averaged: bool
) -> bool:
    if len(got) != len(expected):
        return False
    for row, (key, count, mean) in zip(got, expected, strict=True):
        if row[:keys] != key or row[keys] != count:
            return False
        if averaged and not equal(row[keys + 1], mean):
            return False
    return True


def equal(got: Any, mean: float | None) -> bool:
    return got is mean if got is None or mean is None else abs(float(got) - mean) <= TOLERANCE * max(1, abs(mean))


def main() -> None:
    wrong = {name: list(differences(shape)) for name, shape in shapes().items()}
    for name, shape in shapes().items() if "--write" in sys.argv else ():
        (CORPUS / f"{name}.yaml").write_text(drafted(shape).text, encoding="utf-8")
    for name, found in wrong.items():
        sys.stdout.writelines(f"{name}: {difference}\n" for difference in found)
    right = sum(not found for found in wrong.values())
    sys.stdout.write(f"{right} of {len(wrong)} shapes run unedited with right results\n")


if __name__ == "__main__":
    main()

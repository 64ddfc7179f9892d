"""Writes the text of a first pipeline file for a topic, with comments, from a sample of the topic's records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from sluice.draft.sampled_attributes import Attribute, best_measurement, example_of
from sluice.draft.sampled_records import Sample
from sluice.model.secrets import is_secret
from sluice.model.types import INT64

#: characters of a line in front of its comment
COLUMN = 44
#: the stream of the tuples that have the number of which the average is computed
MEASURED = "measured"
#: attributes of a table in the output of the join that is suggested for it
TABLE_OUTPUTS = 3


def draft(
    topic: str,
    sample: Sample,
    file: str,
    kafka: Mapping[str, str],
    registry: Mapping[str, str],
    *,
    compacted: bool = False,
) -> str:
    """The text of the pipeline file. `kafka` and `registry` have the properties of the clients, and may be empty.

    compacted   whether the topic is known to be compacted
    """
    stream = _stream_name(topic)
    table = compacted or sample.tombstones > 0
    lines = [*_head(topic, sample, file, compacted=compacted), *_streams(topic, sample, stream, table=table)]
    lines += [*_operator(sample, stream), *(_join(sample, stream) if table else ())]
    lines += ["dead_letters: dead", *_properties("kafka", kafka), *_properties("registry", registry)]
    return "\n".join(lines) + "\n"


def _head(topic: str, sample: Sample, file: str, *, compacted: bool) -> Iterator[str]:
    checked = f"sluice check {file}" if file != "-" else "sluice check"
    yield f"# A first pipeline for topic {topic}, drafted from {counted(sample.records, 'record')}. Lines with # are"
    yield f"# suggestions; `{checked}` checks the file after a change."
    of_all = f"of the {counted(sample.records, 'record')}"
    if bad := sample.records - sample.usable - sample.tombstones:
        problem = "no JSON objects" if sample.format == "json" else "not readable with a schema of the registry"
        yield f"# {bad} {of_all} are {problem}: such records become dead letters."
    if sample.unfit:
        yield f"# {sample.unfit} {of_all} have a value of another type than the attribute: such records become dead"
        yield "# letters."
    if sample.tombstones:
        yield f"# {sample.tombstones} {of_all} have no value (tombstones). In a table such a record deletes the row of"
        yield "# its key; in this stream, which is no table, it becomes a dead letter."
    if compacted:
        yield "# Kafka compacts the topic: of each key it keeps the newest record (cleanup.policy)."
    if compacted or sample.tombstones:
        yield "# To read it as a table, follow the comments with `table` below and docs/join.md."
    name = re.sub(r"[^\w-]+", "-", topic, flags=re.ASCII).strip("-")
    yield f"pipeline: {_word(name or 'first')}"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _streams(topic: str, sample: Sample, stream: str, *, table: bool) -> Iterator[str]:
    usable = [attribute for attribute in sample.attributes if not attribute.problem]
    yield "streams:"
    yield _commented(f"  {stream}:", "the input: a tuple for each record")
    yield f"    topic: {_word(topic)}"
    if sample.format != "json":
        yield f"    format: {sample.format}"
    yield "    schema:"
    for attribute in usable:
        yield _commented(f"      {_word(attribute.name)}: {attribute.type}", _comment(attribute))
    for attribute in sample.attributes:
        if attribute.problem:
            yield f"      # left out: {json.dumps(attribute.name)}: {attribute.problem}"
    if table and sample.key is not None and sample.key not in (attribute.name for attribute in usable):
        yield _commented(f"      # {_word(sample.key)}: string", "the key of the record, for a table")
    if _time(usable) is None:
        use = "the timestamp of the record, for the next two suggestions"
        yield _commented(f"      # {_free(sample)}: timestamp", use)
    yield from _places_and_defaults(usable)
    if table:
        yield from _table(sample, usable)
    yield from _event_time(sample, usable)
    number = best_measurement([attribute for attribute in usable if attribute.name != sample.group])
    if number and number.absence:
        yield _commented(f"  {MEASURED}: {{}}", f"the tuples that have {number.name}; inside the service")
    yield _commented(f"  results: {{topic: {_word(f'{topic}.results')}}}", "the output; a start creates the topic")
    yield _commented(f"  dead: {{topic: {_word(f'{topic}.dead')}}}", "records that cannot be used, with the reason")


def _stream_name(topic: str) -> str:
    """The name of the input."""
    name = re.sub(r"\W+", "_", topic, flags=re.ASCII).strip("_")
    free = name and not name[0].isdigit() and name not in ("results", "dead", MEASURED)
    return _word(name if free else f"topic_{name}")


def _comment(attribute: Attribute) -> str:
    parts = (
        "the key of the record" if attribute.in_key else "",
        f"such as {attribute.example}" if attribute.values else "",
        f"{attribute.unit} since 1970?" if attribute.unit else "",
        attribute.absence,
        _unfit(attribute),
    )
    return "; ".join(filter(None, parts)) or "of the schema in the registry"


def _unfit(attribute: Attribute) -> str:
    if not attribute.unfit:
        return ""
    letters = "a dead letter" if len(attribute.unfit) == 1 else "dead letters"
    verb = "is" if len(attribute.unfit) == 1 else "are"
    all_values = counted(len(attribute.values) + len(attribute.unfit), "record")
    return f"{len(attribute.unfit)} of {all_values} {verb} {letters}, such as {example_of(attribute.unfit)}"


def _table(sample: Sample, usable: Sequence[Attribute]) -> Iterator[str]:
    """The lines that make the stream a table."""
    names = {attribute.name: attribute for attribute in usable}
    meaning = "the key of the record"
    if sample.key is None:
        yield _commented("    # key: {attributes: [...]}", f"for a table: {meaning} (docs/formats.md, Keys)")
    elif sample.key not in names or not names[sample.key].in_key:
        yield _commented(f"    # key: {{attributes: [{_word(sample.key)}]}}", f"for a table: {meaning}")
    yield _commented("    # table: true", "a table: the newest record of each key, for the right side of a join")


def _join(sample: Sample, stream: str) -> Iterator[str]:
    """A join with the topic as a table, as a comment."""
    key = sample.key or "KEY"
    others = [attribute.name for attribute in sample.attributes if not attribute.problem and attribute.name != key]
    values = {key: f"left.{key}"} | {name: f"right.{name}" for name in others[:TABLE_OUTPUTS]}
    yield _commented(
        "  # - name: with_table", "instead of last_ten, if it is a table: the row of each left tuple's key"
    )
    yield _commented(f"  #   join: {{left: OTHER, right: {stream}}}", "OTHER: a stream whose tuples have the key")
    yield _commented(f"  #   equality_left: [{_word(key)}]", "the attribute of OTHER with the key")
    yield f"  #   equality_right: [{_word(key)}]"
    yield f"  #   output: {{results: {{{', '.join(f'{_word(name)}: {value}' for name, value in values.items())}}}}}"


def _places_and_defaults(usable: Sequence[Attribute]) -> Iterator[str]:
    for attribute in usable:
        if attribute.in_key:
            yield f"    key: {{attributes: [{_word(attribute.name)}]}}"
    missing = {_word(attribute.name): json.dumps(attribute.default) for attribute in usable if attribute.absence}
    if missing:
        values = ", ".join(f"{name}: {value}" for name, value in missing.items())
        yield _commented(f"    defaults: {{{values}}}", "without a default such a record is a dead letter")


def _event_time(sample: Sample, usable: Sequence[Attribute]) -> Iterator[str]:
    time = _time(usable)
    if time is None:
        yield f"    # record_timestamp: {_free(sample)}"
        yield _commented(f"    # event_time: {{attribute: {_free(sample)}, lag: 10s}}", "for windows over this time")
    else:
        unit = f", resolution: {time.resolution}" if time.resolution else ""
        line = f"    # event_time: {{attribute: {_word(time.name)}, lag: 10s{unit}}}"
        yield _commented(line, "for windows over the time in the records")


def _free(sample: Sample) -> str:
    """A name that no attribute has, for the attribute with the timestamp of the record."""
    taken = {attribute.name for attribute in sample.attributes}
    return next(name for name in map("sent{}".format, ("", *range(2, len(taken) + 3))) if name not in taken)


def _time(usable: Sequence[Attribute]) -> Attribute | None:
    """The attribute that may be the event time: the first one that all records have, else the first one."""
    times = [attribute for attribute in usable if attribute.is_time]
    return min(times, key=lambda attribute: bool(attribute.absence), default=None)


def _operator(sample: Sample, stream: str) -> Iterator[str]:
    usable, group = [attribute for attribute in sample.attributes if not attribute.problem], sample.group
    number = best_measurement([attribute for attribute in usable if attribute.name != group])
    by = ", partitioned" if group else ""
    of_each = f" of each {group}" if group else ""
    yield "operators:"
    if number and number.absence:
        yield from _filter(number, stream)
        stream = MEASURED
    yield "  - name: last_ten"
    yield f"    aggregate: {stream}"
    yield _commented(f"    window: sliding, count(10){by}", f"the last ten tuples{of_each}, at each tuple")
    yield _commented(f"    # window: tumbling, time(1m){by}", "each minute of the clock")
    yield _commented(f"    # window: timeInterval, intervalDuration(1m){by}", "each minute of event time")
    if group:
        yield f"    partition_by: [{_word(group)}]"
    yield "    output:"
    yield "      results:"
    for name, expression in _outputs(usable, group, number).items():
        yield f"        {_word(name)}: {_word(expression)}"


def _filter(number: Attribute, stream: str) -> Iterator[str]:
    """A map that drops the tuples without the number, so that they do not count in its average."""
    yield f"  - name: {MEASURED}"
    yield f"    map: {stream}"
    yield _commented(f"    where: not isNaN({number.name})", f"drops the records without {number.name}")
    yield f"    output: [{MEASURED}]"


def _outputs(usable: Sequence[Attribute], group: str | None, number: Attribute | None) -> dict[str, str]:
    """The attributes of the output: name -> expression."""
    values = [attribute for attribute in usable if attribute.name != group]
    computed = {"tuples": "Count()"}
    if number:
        argument = f"float64({number.name})" if number.type == INT64 else number.name  # Average of int64 cuts (A20)
        computed |= {f"average_{number.name}": f"Average({argument})"}
    elif values:
        computed |= {f"last_{values[0].name}": f"Last({values[0].name})"}
    given = {group: group} if group else {}
    return given | {f"{name}_" if name == group else name: expression for name, expression in computed.items()}


def _properties(block: str, properties: Mapping[str, str]) -> Iterator[str]:
    if properties:
        yield f"{block}:"
    for name, value in properties.items():
        if is_secret(name):
            variable = f"{block}_{re.sub(r'[^a-zA-Z0-9]', '_', name)}".upper()
            yield _commented(f"  {_word(name)}: ${{{variable}}}", "an environment variable")
        else:
            yield f"  {_word(name)}: {json.dumps(value)}"


def _commented(line: str, comment: str) -> str:
    return f"{line:<{COLUMN - 1}} # {comment}"


def _word(text: str) -> str:
    """A text as YAML; in quotes if YAML would read it as something else.

    What begins with a digit, a point or a sign is in quotes, too: the pipeline file reads numbers such as 0E0 that
    PyYAML reads as texts.
    """
    try:
        plain: Any = yaml.safe_load(text)
    except yaml.YAMLError:
        plain = None
    return text if plain == text and re.fullmatch(r"[^\W\d][\w.()-]*", text) else json.dumps(text)

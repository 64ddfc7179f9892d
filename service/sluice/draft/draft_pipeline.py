"""Writes the text of a first pipeline file for a topic, with comments, from a sample of the topic's records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sluice.draft.drafted_time import EventTime, event_time_of, unclear
from sluice.draft.envelopes import DEBEZIUM, UPSERT
from sluice.draft.lists_of_objects import Level, Unnested, unnested
from sluice.draft.name_words import measures
from sluice.draft.sample_table import counted
from sluice.draft.sampled_attributes import CHANGE, HEADER, KEY, PLAIN, VALUE, Attribute, example_of, kinds_text
from sluice.draft.sampled_records import Sample
from sluice.draft.user_choices import AUTOMATIC, Choices, Roles, roles_of
from sluice.draft.value_forms import KEY_OF_BYTES, PERHAPS_BYTES, Form, kinds, quoted_type, yaml_word
from sluice.json_texts import is_json, members_of
from sluice.model.secrets import is_secret

#: characters of a line in front of its comment
COLUMN = 44
#: attributes of a table in the output of the join that is suggested for it
TABLE_OUTPUTS = 3
#: attributes in the schema; more of them are comments
MAX_ATTRIBUTES = 60
#: headers that are suggested as attributes
MAX_HEADERS = 8
#: a text that may be the bytes of a number, as Connect writes decimals
BYTES = re.compile(r"(?:[A-Za-z0-9+/]{4}){0,4}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
#: what is wrong with records of a format that cannot be read
PROBLEMS = {
    "json": "no JSON objects", "csv": "rows of names", "avro": "not readable with the schema",
    "protobuf": "not readable with the schema",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Traits:
    """Facts about a topic that its records do not show.

    compacted   whether Kafka compacts it
    quiet       whether a topic partition has no records
    """

    compacted: bool = False
    quiet: bool = False


NO_TRAITS = Traits()


def draft(
    topic: str,
    sample: Sample,
    file: str,
    kafka: Mapping[str, str],
    registry: Mapping[str, str],
    *,
    traits: Traits = NO_TRAITS,
    choices: Choices = AUTOMATIC,
) -> str:
    """The text of the pipeline file. `kafka` and `registry` have the properties of the clients, and may be empty.

    traits      what is known of the topic
    choices     what the user has chosen instead of what the records suggest
    """
    stream, roles = _stream_name(topic), roles_of(sample, choices)
    table = _may_be_table(sample, compacted=traits.compacted)
    time, objects = event_time_of(roles, table=traits.compacted), unnested(roles)
    lines = list(_head(topic, roles, file, time, compacted=traits.compacted))
    lines += [
        *_streams(topic, roles, stream, time, table=table, quiet=traits.quiet),
        *_operators(roles, stream, time, table=table),
    ]
    if objects is not None:
        at = lines.index("operators:")
        lines[at:at] = _streams_of_objects(topic, objects)
        lines += _operators_of_objects(objects, stream)
    lines += _join(sample, stream) if table else ()
    lines += ["dead_letters: dead", *_properties("kafka", kafka), *_properties("registry", registry)]
    return "\n".join(lines) + "\n"


def _may_be_table(sample: Sample, *, compacted: bool) -> bool:
    """Whether the records may be the rows of a table, each in place of the one before of its key."""
    return compacted or sample.tombstones > 0 or sample.envelope.word == DEBEZIUM


def _head(topic: str, roles: Roles, file: str, time: EventTime | None, *, compacted: bool) -> Iterator[str]:
    sample = roles.sample
    checked = f"sluice check {file}" if file != "-" else "sluice check"
    yield f"# A first pipeline for topic {topic}, drafted from {counted(sample.records, 'record')}. Lines with # are"
    yield f"# suggestions; `{checked}` checks the file after a change."
    yield from _choices(roles, time, compacted=compacted)
    of_all = f"of the {counted(sample.records, 'record')}"
    if sample.unreadable:
        problem = PROBLEMS.get(sample.format, "not readable with a schema of the registry")
        yield f"# {sample.unreadable} {of_all} are {problem}: such records become dead letters."
    if sample.unfit:
        yield f"# {sample.unfit} {of_all} have a value of another type than the attribute: such records become dead"
        yield "# letters."
    if sample.tombstones:
        yield f"# {sample.tombstones} {of_all} have no value (tombstones). In a table such a record deletes the row of"
        effect = "makes no tuple of it" if sample.envelope.word in (DEBEZIUM, UPSERT) else "makes a dead letter of it"
        yield f"# its key; this stream, which is no table, {effect}."
    if compacted:
        yield "# Kafka compacts the topic: of each key it keeps the newest record (cleanup.policy)."
    if _may_be_table(sample, compacted=compacted):
        yield "# To read it as a table, follow the comments with `table` below and docs/join.md."
    name = re.sub(r"[^\w-]+", "-", topic, flags=re.ASCII).strip("-")
    yield f"pipeline: {yaml_word(name or 'first')}"


def _choices(roles: Roles, time: EventTime | None, *, compacted: bool) -> Iterator[str]:
    """Comment lines with the choices of the draft and their reasons."""
    names = " and ".join(attribute.name for attribute in roles.key)
    yield f"# key: {f'{names}, {_why(roles)}' if names else 'none, one window for all tuples'}"
    if roles.time is not None:
        yield f"# time: {roles.time.name}, {_use_of_time(roles, time, table=compacted)}"
    if any(attribute.optional for attribute in roles.sample.usable_attributes):
        yield f"# missing values: {'null' if roles.missing else 'dead letters'}"


def _use_of_time(roles: Roles, time: EventTime | None, *, table: bool) -> str:
    if time is not None:
        return f"the event time of the window {time.operator}"
    return f"only suggested as event time: {unclear(roles, table=table)}"


def _why(roles: Roles) -> str:
    if roles.key_is_chosen:
        return "as chosen"
    key = {attribute.name for attribute in roles.sample.key.attributes}
    if {attribute.name for attribute in roles.key} <= key:
        return "the key of the records"
    return "which has several records for most of its values"


def _streams(
    topic: str, roles: Roles, stream: str, time: EventTime | None, *, table: bool, quiet: bool
) -> Iterator[str]:
    sample = roles.sample
    yield "streams:"
    yield _commented(f"  {stream}:", "the input: a tuple for each record")
    yield f"    topic: {yaml_word(topic)}"
    if sample.format != "json":
        yield f"    format: {sample.format}"
    for key, value in sample.settings.items():
        yield f"    {key}: {_path_word(value) if key != 'message' else value}"
    yield from _rows_of_csv(roles)
    yield from _envelope(sample)
    if any(attribute.form and attribute.form.base64 for attribute in sample.usable_attributes):
        yield _commented(f"    {KEY_OF_BYTES}", "the bytes of the numbers, as Kafka Connect writes them")
    yield "    schema:"
    yield from _schema(roles)
    names = {attribute.name for attribute in sample.usable_attributes}
    for attribute in sample.key.attributes if table else ():
        if attribute.name not in names:
            yield _commented(f"      # {_row(attribute, roles)}", "the key of the record, for a table")
    if roles.time is None:
        use = "the timestamp of the record, for the next two suggestions"
        yield _commented(f"      # {_free(sample)}: timestamp", use)
    yield from _key_of_record(sample)
    if table:
        yield from _table(sample)
    yield from _event_time(roles, time, quiet=quiet)
    yield _commented(f"  results: {{topic: {yaml_word(f'{topic}.results')}}}", "the output; a start creates the topic")
    if time is not None:
        yield f"  {time.stream}: {{topic: {yaml_word(f'{topic}.{time.stream}')}}}"
    yield _commented(f"  dead: {{topic: {yaml_word(f'{topic}.dead')}}}", "records that cannot be used, with the reason")


def _envelope(sample: Sample) -> Iterator[str]:
    if sample.envelope.word == DEBEZIUM:
        line = "    envelope: debezium"
        yield _commented(line, "the row after each change; a deleted row makes no tuple, or `deletes: include`")
        beside = [attribute for attribute in sample.usable_attributes if attribute.part == CHANGE]
        members = ", ".join(f"{yaml_word(attribute.name)}: {attribute.source}" for attribute in beside)
        yield _commented(f"    change: {{{members}}}", "attributes that are beside the row")
    elif sample.envelope.word == UPSERT:
        yield _commented("    envelope: upsert", "a record without a value makes no tuple, or `deletes: include`")


def _rows_of_csv(roles: Roles) -> Iterator[str]:
    """What the stream says of rows of CSV. If not each field is an attribute, it names them all; else the attributes
    say their order.
    """
    sample = roles.sample
    if sample.delimiter != ",":
        yield f"    delimiter: {json.dumps(sample.delimiter)}"
    behind = _behind(roles)
    fields = [a.name for a in sample.usable_attributes if a.part == VALUE and a.name not in behind]
    if sample.columns and list(sample.columns) != fields:
        yield _commented(f"    columns: [{', '.join(map(yaml_word, sample.columns))}]", "all fields of a row")


def _behind(roles: Roles) -> set[str]:
    """The attributes without a role that are behind MAX_ATTRIBUTES others."""
    return {attribute.name for attribute in roles.sample.usable_attributes[MAX_ATTRIBUTES:]} - roles.names


def _schema(roles: Roles) -> Iterator[str]:
    """The rows of the schema; those of attributes `_behind` others are comments."""
    usable = roles.sample.usable_attributes
    behind = _behind(roles)
    for attribute in usable:
        sign = "# " if attribute.name in behind else ""
        yield _commented(f"      {sign}{_row(attribute, roles)}", _comment(attribute, roles))
    for header in roles.sample.headers[:MAX_HEADERS]:
        yield _commented(f"      # {_row(header, roles)}", f"a header, {_comment(header, roles)}")
    for attribute in roles.sample.attributes:
        if attribute.problem:
            yield f"      # left out: {json.dumps(attribute.source)}: {attribute.problem}"


def _row(attribute: Attribute, roles: Roles) -> str:
    """The attribute in the schema: `price: float64`, `price: {from: trade.p, type: decimal(2)}`."""
    assert attribute.form is not None  # noqa: S101 - it has no problem
    type_ = roles.type_of(attribute)
    settings = {"from": _quoted(attribute.source)} if _needs_path(attribute) else {}
    settings |= {"type": attribute.form.inside or quoted_type(type_)} | attribute.form.options
    if set(settings) == {"type"}:
        return f"{yaml_word(attribute.name)}: {settings['type']}"
    return f"{yaml_word(attribute.name)}: {{{', '.join(f'{key}: {text}' for key, text in settings.items())}}}"


def _needs_path(attribute: Attribute) -> bool:
    if attribute.part == KEY:
        return bool(attribute.path)
    return attribute.part == HEADER or (attribute.part == VALUE and attribute.path != (attribute.name,))


def _quoted(path: str) -> str:
    """The path as YAML, within a mapping in one line."""
    return (
        path
        if re.fullmatch(r"[^\W\d][\w.]*", path) and yaml_word(path) == path
        else "'" + path.replace("'", "''") + "'"
    )


def _stream_name(topic: str) -> str:
    """The name of the input."""
    name = re.sub(r"\W+", "_", topic, flags=re.ASCII).strip("_")
    taken = name in ("results", "dead") or name.startswith(("by_", "each_", "results_"))
    return yaml_word(f"topic_{name}" if taken or not name or name[0].isdigit() else name)


def _comment(attribute: Attribute, roles: Roles) -> str:
    parts = (
        "the key of the record" if attribute.part == KEY else "",
        f"such as {attribute.example}" if attribute.values else "",
        _absence(attribute, roles),
        _unfit(attribute),
        _inside(attribute),
    )
    return "; ".join(filter(None, parts)) or "of the schema in the registry"


def _absence(attribute: Attribute, roles: Roles) -> str:
    values = "missing, null or empty" if attribute.form and attribute.form.coerce else "missing or null"
    seen = f"{values} in {attribute.absent} of {attribute.documents} records" if attribute.absent else ""
    dead = "such a record is a dead letter" if attribute.optional and not roles.is_optional(attribute) else ""
    return "; ".join(filter(None, (seen or attribute.absence, dead)))


def _inside(attribute: Attribute) -> str:
    """What the values of an attribute are good for that are no plain values, or may be others than they seem."""
    assert attribute.form is not None  # noqa: S101 - it has no problem
    if attribute.form.pairs:
        return f'`{attribute.name}["NAME"]` in an expression is the value of this name'
    if attribute.form.words:
        return f"`try(float64({attribute.name}))` is its number, null for another text"
    if attribute.is_list_of_objects:
        return f"`each: {attribute.name} as item` of a map makes a tuple of each object"
    if _may_be_bytes(attribute):
        return PERHAPS_BYTES
    if member := _member_of_text(attribute):
        return f"JSON as a text: `jsonText(json({attribute.name}), {json.dumps(member)})` is a member of it"
    return _inside_json(attribute) if attribute.form.type == "json" else ""


def _member_of_text(attribute: Attribute) -> str:
    """The first member with a plain name of the objects that are the texts of the attribute; empty if they are no
    objects of JSON.
    """
    text = attribute.form is not None and attribute.form.type == "string"
    if not text or not all(str(value)[:1] == "{" for value in attribute.values):
        return ""
    objects = [members_of(value) if is_json(value) else {} for value in attribute.values]
    return next(filter(PLAIN.fullmatch, objects[0]), "") if objects and all(objects) else ""


def _inside_json(attribute: Attribute) -> str:
    if len(list(kinds(attribute.values))) > 1:
        return f"the values are {kinds_text(attribute.values)}"
    items = [item for value in attribute.values if isinstance(value, list) for item in value]
    lists = items and all(isinstance(item, dict) for item in items)
    return "with the type `[{...}]`, `each` of a map makes a tuple of each object" if lists else ""


def _may_be_bytes(attribute: Attribute) -> bool:
    """Whether texts below the name of a measurement may be decimals of Connect, which look like texts."""
    text = attribute.form is not None and attribute.form.type == "string" and not attribute.form.words
    named = text and measures(attribute.meaning) and len(attribute.values) > 1
    return named and all(isinstance(value, str) and BYTES.fullmatch(value) for value in attribute.values)


def _unfit(attribute: Attribute) -> str:
    if not attribute.unfit:
        return ""
    letters = "a dead letter" if len(attribute.unfit) == 1 else "dead letters"
    verb = "is" if len(attribute.unfit) == 1 else "are"
    all_values = counted(len(attribute.values) + len(attribute.unfit), "record")
    odd = example_of([value for _, value in attribute.unfit])
    return f"{len(attribute.unfit)} of {all_values} {verb} {letters}, such as {odd}"


def _key_of_record(sample: Sample) -> Iterator[str]:
    """The line that reads the key of the record: a key that is a text, and that of an upsert; and the format of a key
    with members, if another one would be read.
    """
    if sample.envelope.word == UPSERT or _has_text_key(sample):
        yield f"    key: {_key(sample)}"
    elif sample.format != "json" and any(attribute.part == KEY for attribute in sample.usable_attributes):
        yield f"    key: {{format: {sample.key.format}}}"


def _has_text_key(sample: Sample) -> bool:
    return any(attribute.part == KEY and not attribute.path for attribute in sample.usable_attributes)


def _key(sample: Sample) -> str:
    names = ", ".join(yaml_word(attribute.name) for attribute in sample.key.attributes)
    return f"{{attributes: [{names}]{f', format: {sample.key.format}' if sample.key.json else ''}}}"


def _table(sample: Sample) -> Iterator[str]:
    """The lines that make the stream a table."""
    meaning = "the key of the record"
    if not sample.key.attributes:
        yield _commented("    # key: {attributes: [...]}", f"for a table: {meaning} (docs/formats.md, Keys)")
    elif sample.envelope.word != UPSERT and not _has_text_key(sample):
        yield _commented(f"    # key: {_key(sample)}", f"for a table: {meaning}")
    yield _commented("    # table: true", "a table: the newest record of each key, for the right side of a join")


def _join(sample: Sample, stream: str) -> Iterator[str]:
    """A join with the topic as a table, as a comment."""
    keys = [attribute.name for attribute in sample.key.attributes] or ["KEY"]
    others = [attribute.name for attribute in sample.usable_attributes if attribute.name not in keys]
    values = {key: f"left.{key}" for key in keys} | {name: f"right.{name}" for name in others[:TABLE_OUTPUTS]}
    yield _commented(
        "  # - name: with_table", "instead of the windows, if it is a table: the row of each left tuple's key"
    )
    yield _commented(f"  #   join: {{left: OTHER, right: {stream}}}", "OTHER: a stream whose tuples have the key")
    yield _commented(f"  #   equality_left: [{', '.join(map(yaml_word, keys))}]", "the attribute of OTHER with the key")
    yield f"  #   equality_right: [{', '.join(map(yaml_word, keys))}]"
    yield f"  #   output: {{results: {{{', '.join(f'{yaml_word(name)}: {value}' for name, value in values.items())}}}}}"


def _event_time(roles: Roles, time: EventTime | None, *, quiet: bool) -> Iterator[str]:
    if time is not None:
        idle = ", idle_after: 1m" if quiet else ""
        line = f"    event_time: {{attribute: {yaml_word(time.attribute.name)}, lag: {time.lag}{idle}}}"
        yield _commented(line, f"{time.order}; {time.operator} waits {time.lag} for earlier ones")
    elif roles.time is None:
        free = _free(roles.sample)
        yield f"    # record_timestamp: {free}"
        yield _commented(f"    # event_time: {{attribute: {free}, lag: 10s}}", "for windows over this time")
    else:
        line = f"    # event_time: {{attribute: {yaml_word(roles.time.name)}, lag: 10s}}"
        yield _commented(line, "for windows over the time in the records")


def _free(sample: Sample) -> str:
    """A name that no attribute has, for the attribute with the timestamp of the record."""
    taken = {attribute.name for attribute in sample.attributes}
    return next(name for name in map("sent{}".format, ("", *range(2, len(taken) + 3))) if name not in taken)


def _operators(roles: Roles, stream: str, time: EventTime | None, *, table: bool) -> Iterator[str]:
    keyed = ", partitioned" if roles.key else ""
    yield "operators:"
    yield "  - name: last_ten"
    yield f"    aggregate: {stream}"
    yield _commented(f"    window: sliding, count(10){keyed}", f"the last ten tuples{_of_each(roles)}, at each tuple")
    yield _commented(f"    # window: tumbling, time(1m){keyed}", "each minute of the clock")
    if table:
        yield _commented(f"    # window: table{keyed}", "with `table: true` of the stream: the present row of each key")
    if time is None:
        yield _commented(f"    # window: timeInterval, intervalDuration(1m){keyed}", "each minute of event time")
    yield from _output(roles, "results", {})
    if time is not None:
        yield f"  - name: {time.operator}"
        yield f"    aggregate: {stream}"
        window = f"    window: timeInterval, intervalDuration({time.pane}){keyed}"
        yield _commented(window, f"{time.each} of {time.attribute.name}, when it is over")
        yield from _output(roles, time.stream, {"start": "intervalStart()"})


def _streams_of_objects(topic: str, objects: Unnested) -> Iterator[str]:
    for level in objects.levels:
        yield _commented(f"  {level.operator}: {{}}", f"a tuple for each object of {level.attribute}")
    name = f"results_{objects.name}"
    yield f"  {name}: {{topic: {yaml_word(f'{topic}.{name}')}}}"


def _operators_of_objects(objects: Unnested, stream: str) -> Iterator[str]:
    sources = (stream, *(level.operator for level in objects.levels))
    for level, source in zip(objects.levels, sources, strict=False):
        yield from _each(level, source)
    roles = objects.roles
    yield f"  - name: last_ten_{objects.name}"
    yield f"    aggregate: {sources[-1]}"
    keyed = ", partitioned" if roles.key else ""
    yield _commented(f"    window: sliding, count(10){keyed}", f"the last ten objects{_of_each(roles)}, at each object")
    yield from _output(roles, f"results_{objects.name}", {})


def _each(level: Level, source: str) -> Iterator[str]:
    yield f"  - name: {level.operator}"
    yield f"    map: {source}"
    yield f"    each: {level.attribute} as {level.element}"
    yield "    output:"
    yield f"      {level.operator}:"
    for attribute, expression in level.expressions.items():
        yield f"        {yaml_word(attribute)}: {yaml_word(expression)}"


def _of_each(roles: Roles) -> str:
    return f" of each {' and '.join(attribute.name for attribute in roles.key)}" if roles.key else ""


def _output(roles: Roles, stream: str, more: Mapping[str, str]) -> Iterator[str]:
    if roles.key:
        yield f"    partition_by: [{', '.join(yaml_word(attribute.name) for attribute in roles.key)}]"
    yield "    output:"
    yield f"      {stream}:"
    for name, expression in _outputs(roles, more).items():
        yield f"        {yaml_word(name)}: {yaml_word(expression)}"


def _outputs(roles: Roles, more: Mapping[str, str]) -> dict[str, str]:
    """The attributes of the output, name -> expression. `more` has attributes that stand behind the key."""
    keys = [attribute.name for attribute in roles.key]
    values = [attribute for attribute in roles.sample.usable_attributes if attribute.name not in keys]
    computed = {**more, "tuples": "Count()"}
    number = roles.measurement
    if number and number.form:
        computed |= {f"average_{number.name}": f"Average({_number(number.name, number.form)})"}
    elif values:
        computed |= {f"last_{values[0].name}": f"Last({values[0].name})"}
    return dict(zip(keys, keys, strict=True)) | {
        f"{name}_" if name in keys else name: expression for name, expression in computed.items()
    }


def _number(name: str, form: Form) -> str:
    """The expression of a number whose average has all of its places: Average of int64 cuts them (A20)."""
    if form.words:
        return f"try(float64({name}))"
    return f"float64({name})" if form.type == "int64" else name


def _properties(block: str, properties: Mapping[str, str]) -> Iterator[str]:
    if properties:
        yield f"{block}:"
    elif block == "kafka":
        yield _commented("# kafka: {bootstrap.servers: HOST:PORT}", "the brokers, for `sluice run`")
    for name, value in properties.items():
        if is_secret(name):
            variable = f"{block}_{re.sub(r'[^a-zA-Z0-9]', '_', name)}".upper()
            yield _commented(f"  {yaml_word(name)}: ${{{variable}}}", "an environment variable")
        else:
            yield f"  {yaml_word(name)}: {json.dumps(value)}"


def _commented(line: str, comment: str) -> str:
    return f"{line:<{COLUMN - 1}} # {comment}"


def _path_word(text: str) -> str:
    """The path of a file as YAML."""
    return text if re.fullmatch(r"[^\W\d][\w./-]*", text) else json.dumps(text)

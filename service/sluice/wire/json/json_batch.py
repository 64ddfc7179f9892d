"""Decodes the rows of a batch of JSON values that the compiled scanner accepts, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sluice.columns.arrow_types import array_of, arrow_schema, arrow_type
from sluice.columns.kernel import kernel
from sluice.model.members import NO_MEMBERS, Member, Members, PathTree, paths_of, spelling_of
from sluice.model.types import JSON, TIMESTAMP, Schema
from sluice.wire.decoded_records import bytes_of, merged, record_batch
from sluice.wire.json import json_contract, time_patterns
from sluice.wire.json.json_contract import JsonForm
from sluice.wire.json.json_grammar import NO, OPEN_LIST, OPEN_OBJECT
from sluice.wire.json.json_scan import FieldSpans, Wanted, items, scan
from sluice.wire.json.json_types import ListForm, OptionalForm, StructForm, json_form
from sluice.wire.json.json_values import NotOfTypeError, as_written, parsed


def scannable(schema: Schema, members: Members = NO_MEMBERS) -> bool:
    """Whether the scanner supports all types, spellings and paths of the schema."""
    return _plan(schema, tuple(members.items()), frozenset()) is not None


class Plan(NamedTuple):
    """The tables of the scanner for a schema. `depth` is the number of nodes that may be open at once."""

    forms: list[JsonForm]
    wanted: Wanted
    depth: int


@lru_cache(maxsize=1024)
def _plan(schema: Schema, members: tuple[tuple[str, Member], ...], defaults: frozenset[str]) -> Plan | None:
    """The plan of the scanner; None if it does not support the schema. `defaults`: the attributes that have a default,
    which only the exact decoder sets.
    """
    by_name = dict(members)
    forms = [json_form(type_, spelling_of(name, by_name)) for name, type_ in schema]
    paths = paths_of(schema, by_name)
    root = PathTree.of(paths)
    whole = root.is_list or root.attributes
    if whole or any(form.scanned is None for form in forms) or not all(map(_apart, root.nodes())):
        return None
    optional = [type_.optional and name not in defaults for name, type_ in schema]
    return Plan(forms, _wanted(root, forms, optional), max(map(len, paths), default=1))


def _apart(node: PathTree) -> bool:
    """Whether the node has either an attribute or inner nodes, and its inner nodes are either named or counted."""
    return not (node.attributes and node.inner) and len({type(step) for step in node.inner}) <= 1


def _wanted(root: PathTree, forms: list[JsonForm], optional: list[bool]) -> Wanted:
    """The tables of the tree (see Wanted)."""
    nodes = [node for node in root.nodes() if node.inner or node is root]
    numbers = {id(node): number for number, node in enumerate(nodes)}
    children = [child for node in nodes for child in node.inner.items()]
    names, starts = bytes_of(pa.array([str(step).encode() for step, _ in children], pa.binary()))
    twins = np.full(len(forms), NO, np.int64)
    for _, node in children:
        twins[node.attributes[:-1]] = node.attributes[1:]
    return Wanted(
        names, starts,
        np.array([step if isinstance(step, int) else NO for step, _ in children], np.int64),
        np.array([numbers.get(id(node), NO) for _, node in children], np.int64),
        np.array([node.attributes[0] if node.attributes else NO for _, node in children], np.int64),
        np.cumsum([0, *(len(node.inner) for node in nodes)]),
        np.array([OPEN_LIST if node.is_list else OPEN_OBJECT for node in nodes], np.int64),
        np.array([form.scanned for form in forms], np.int64),
        np.array([form.tick for form in forms], np.int64),
        np.array([form.spelling.coerce for form in forms], np.bool_),
        twins,
        np.where(optional, np.cumsum(optional, dtype=np.int64) - 1, NO),
    )  # fmt: skip


def decode_scannable(
    values: pa.BinaryArray, schema: Schema, members: Members = NO_MEMBERS, defaults: Iterable[str] = ()
) -> tuple[pa.RecordBatch, np.ndarray]:
    """The tuples of the rows that the scanner accepts, and for each row whether it does. The schema is scannable. A
    null of an attribute with one of the `defaults` is not accepted.
    """
    data, starts = bytes_of(values)
    plan = _plan(schema, tuple(members.items()), frozenset(defaults))
    assert plan is not None  # noqa: S101 - the schema is scannable
    spans, sure = _room(len(schema), len(values), plan), np.empty(len(values), np.bool_)
    scan(data, starts, plan.wanted, spans, sure)
    arrow = arrow_schema(schema)
    scanned_columns = {
        a: _values(
            plan.forms[a], data, spans.first[a, sure], spans.last[a, sure],
            None if number == NO else ~spans.present[number, sure],
        )
        for a, (code, number) in enumerate(zip(plan.wanted.codes, plan.wanted.optional, strict=True))
        if code == json_contract.SCANNED_VALUE
    }  # fmt: skip
    right = np.logical_and.reduce(
        [np.ones(np.count_nonzero(sure), np.bool_), *(good for _, good in scanned_columns.values())]
    )
    sure[sure] = right
    columns = [
        scanned_columns[a][0].filter(pa.array(right[scanned_columns[a][1]]))
        if a in scanned_columns
        else _column(
            code,
            field.type,
            data,
            (spans.first[a, sure], spans.last[a, sure], spans.escaped[a, sure]),
            None if number == NO else ~spans.present[number, sure],
        )
        for a, (code, field, number) in enumerate(zip(plan.wanted.codes, arrow, plan.wanted.optional, strict=True))
    ]
    return record_batch(columns, arrow, int(np.count_nonzero(sure))), sure


def _values(
    form: JsonForm, data: np.ndarray, first: np.ndarray, last: np.ndarray, null: np.ndarray | None
) -> tuple[pa.Array, np.ndarray]:
    """The values of an attribute whose texts are in these spans, and which of the texts are values of its type.

    Most values are read together, the others one by one.
    """
    texts = _texts(data, first, last)
    if null is not None:
        texts = pc.if_else(pa.array(null), "null", texts)
    if form.type == JSON:
        good = pc.not_equal(texts, "null").to_numpy(zero_copy_only=False)
        return texts.filter(pa.array(good)).cast(pa.large_string()), good
    present = form.present if isinstance(form, OptionalForm) else form
    if isinstance(present, StructForm):
        values, sure = _structs(present, texts)
    elif isinstance(present, ListForm) and _has_objects(present.element):
        values, sure = _lists(present, data, first, last)
    elif form.spelling.pattern and form.type.present == TIMESTAMP:
        values, sure = _times(form, texts)
    else:
        return _one_by_one(form, texts)
    others = np.flatnonzero(~sure)
    more, fits = _one_by_one(form, texts.take(pa.array(others)))
    return merged(values, others, more, fits)


def _one_by_one(form: JsonForm, texts: pa.StringArray) -> tuple[pa.Array, np.ndarray]:
    good, values = np.ones(len(texts), np.bool_), []
    listed, read = _with_reader(form, texts)
    for row, value in enumerate(listed):
        try:
            values.append(read(value))
        except NotOfTypeError:
            good[row] = False
    return array_of(values, form.type), good


def _with_reader(form: JsonForm, texts: pa.StringArray) -> tuple[list[Any], Callable[[Any], Any]]:
    """The texts as what the form reads, and its function that reads them."""
    if form.by_text:
        return texts.to_pylist(), form.read_text
    list_text = f"[{','.join(texts.to_pylist())}]"
    if form.spelling.coerce:
        return as_written(list_text), form.coerced
    return parsed(list_text, digits=form.digits), form.read


def _times(form: JsonForm, texts: pa.StringArray) -> tuple[pa.Array, np.ndarray]:
    """The times of a pattern, and which texts are certain to be such."""
    inside = pc.if_else(pc.starts_with(texts, '"'), pc.utf8_slice_codeunits(texts, 1, -1), pa.scalar(None, pa.string()))
    times = time_patterns.column(inside, form.spelling.pattern, form.spelling.zone)
    return times.drop_null(), times.is_valid().to_numpy(zero_copy_only=False)


def _structs(form: StructForm, texts: pa.StringArray) -> tuple[pa.Array, np.ndarray]:
    """The structs of objects, as the tuples of records, and which texts are certain to be such."""
    members = {name: Member(spelling=inner.spelling) for name, inner in form.members}
    schema = tuple((name, inner.type) for name, inner in form.members)
    tuples, sure = decode_scannable(texts.cast(pa.binary()), schema, members)
    return pa.StructArray.from_arrays(tuples.columns, fields=list(arrow_type(form.type))), sure


def _has_objects(form: JsonForm) -> bool:
    """Whether it is a struct, or a list with structs in it."""
    inner = isinstance(form, ListForm | OptionalForm) and any(map(_has_objects, form.inside))
    return isinstance(form, StructForm) or inner


def _lists(
    form: ListForm, data: np.ndarray, first: np.ndarray, last: np.ndarray
) -> tuple[pa.Array, np.ndarray]:  # fmt: skip
    """The lists in these spans, and which are certain to be such."""
    counts, nothing = np.zeros(len(first), np.int64), np.zeros(0, np.int64)
    room = items(data, first, last, counts, (nothing, nothing))
    starts, ends = np.empty((2, room), np.int64)
    items(data, first, last, counts, (starts, ends))
    values, good = _values(form.element, data, starts, ends, None)
    sure = counts != NO
    row = np.repeat(np.flatnonzero(sure), counts[sure])
    sure[row[~good]] = False
    offsets = np.concatenate([[0], np.cumsum(counts[sure])])
    kept = values.filter(pa.array(sure[row[good]]))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), kept, type=arrow_type(form.type)), sure


def _room(attributes: int, rows: int, plan: Plan) -> FieldSpans:
    first, last = np.empty((2, attributes, rows), np.int64)
    seen, entered = np.empty(attributes, np.bool_), np.empty(len(plan.wanted.opens), np.bool_)
    stack = np.empty((2, plan.depth), np.int64)
    present = np.empty((np.count_nonzero(plan.wanted.optional != NO), rows), np.bool_)
    return FieldSpans(first, last, np.empty((attributes, rows), np.bool_), seen, entered, stack, present)


def _column(
    code: int, type_: pa.DataType, data: np.ndarray, spans: tuple[np.ndarray, np.ndarray, np.ndarray],
    null: np.ndarray | None,
) -> pa.Array:  # fmt: skip
    """The values of an attribute. `spans` has what the scanner found: first, last and escaped (see FieldSpans); `null`
    says where it is null, None if the attribute is not optional.
    """
    first, last, escaped = spans
    match code:
        case json_contract.SCANNED_BOOLEAN:
            return pa.array(first.astype(np.bool_), mask=null)
        case json_contract.SCANNED_NUMBER:
            return pc.cast(_or_null(_texts(data, first, last), null), type_)
        case _ if code is not None and code >= json_contract.SCANNED_EXACT:
            return pc.cast(_or_null(_texts(data, first, last), null), type_)
        case json_contract.SCANNED_STRING:
            return _or_null(_without_escapes(_texts(data, first, last), escaped), null)
        case _:
            return pa.array(first, mask=null).view(type_)


def _or_null(texts: pa.StringArray, null: np.ndarray | None) -> pa.StringArray:
    return texts if null is None else pc.if_else(pa.array(null), pa.scalar(None, texts.type), texts)


def _without_escapes(texts: pa.StringArray, escaped: np.ndarray) -> pa.StringArray:
    if not escaped.any():
        return texts
    meant = [orjson.loads(f'"{text}"') for text in texts.filter(pa.array(escaped)).to_pylist()]
    return pc.replace_with_mask(texts, pa.array(escaped), pa.array(meant, pa.string()))


def _texts(data: np.ndarray, first: np.ndarray, last: np.ndarray) -> pa.StringArray:
    starts = np.zeros(len(first) + 1, np.int32)
    np.cumsum(last - first, out=starts[1:])
    gathered = np.empty(starts[-1], np.uint8)
    _gather(data, first, starts, gathered)
    return pa.Array.from_buffers(pa.string(), len(first), [None, pa.py_buffer(starts), pa.py_buffer(gathered)])


@kernel
def _gather(data: np.ndarray, first: np.ndarray, starts: np.ndarray, gathered: np.ndarray) -> None:
    for row in range(len(first)):
        at = first[row]
        for i in range(starts[row], starts[row + 1]):
            gathered[i] = data[at + i - starts[row]]

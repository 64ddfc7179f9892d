"""The attributes of sampled records: their names, where the records have them, and how they are read."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

from sluice.config.checks.stream_checks import ATTRIBUTE
from sluice.config.syntax.expression_grammar import RESERVED
from sluice.draft.name_words import BRANCHES, GENERAL, MIN_RECORDS, NUMBER_BRANCHES, is_key, measures, unit_of_time
from sluice.draft.record_tree import VALUES, Item, Path, Place, kind
from sluice.draft.value_forms import Fit, Form, fit, form_of, kinds
from sluice.model.members import WHOLE

#: characters of a value in a comment
MAX_EXAMPLE = 40
#: the parts of a record that have attributes; CHANGE: what a change event has beside the row
VALUE, KEY, HEADER, CHANGE = "value", "key", "header", "change"
#: the name of a member that stands in a path as it is
PLAIN = re.compile(r"[^\W\d]\w*")

#: a JSON object, or a list
Document = Any


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of the records.

    path       the members that lead to it in its part of the record; of a header its name
    form       how it is read; None if its values have no form
    values     its values, without null and without unfit ones
    rows       the numbers of the records with these values, counted from 0
    documents  the number of records
    part       the part of the record that has it: VALUE, KEY, HEADER or CHANGE
    problem    why it cannot be an attribute of a stream; empty if it can
    unfit      (record, value) of the values that the form does not accept: such a record is a dead letter
    absence    why records may lack it although none of the sample does, as a text
    """

    name: str
    path: Path
    form: Form | None
    values: Sequence[Any]
    rows: Sequence[int]
    documents: int
    part: str = VALUE
    problem: str = ""
    unfit: Sequence[tuple[int, Any]] = ()
    absence: str = ""

    @property
    def absent(self) -> int:
        """The number of records in which it is missing or null."""
        return self.documents - len(self.values) - len(self.unfit)

    @property
    def optional(self) -> bool:
        return self.absent > 0 or bool(self.absence)

    @property
    def type(self) -> str:
        """The type in the schema; empty if there is none."""
        return f"{self.form.type}{'?' if self.optional else ''}" if self.form else ""

    @property
    def example(self) -> str:
        """A value as JSON, in one line of ASCII; empty if there is no value."""
        return example_of(self.values)

    @property
    def source(self) -> str:
        """The place of the attribute in a record, as the key `from` of a schema has it."""
        inside = "".join(map(_step_text, self.path))
        if self.part in (KEY, HEADER):
            return f"{self.part}{inside}"
        if not self.path:
            return WHOLE
        part_of_record = self.path[0] in (KEY, HEADER) and self.path != (self.name,)
        return path_text(self.path, quoted=1 if part_of_record else 0)

    @property
    def last_name(self) -> str:
        """The name of the member that has it; of a branch of a union that of the member around it."""
        names = _spoken(self.path)
        return names[-1] if names else self.name

    @property
    def meaning(self) -> str:
        """The last name of the path; the name before it comes first if the last one is general or a single letter."""
        names = _spoken(self.path)
        short = self.last_name.lower() in GENERAL or len(self.last_name) == 1
        return "_".join(names[-2:]) if short and names else self.last_name

    @property
    def numbered(self) -> Iterator[tuple[int, Any]]:
        """The values with the numbers of their records."""
        return zip(self.rows, self.values, strict=True)

    @property
    def is_time(self) -> bool:
        """Whether it can be the event time."""
        return self.form is not None and self.form.type == "timestamp" and not self.problem

    @property
    def is_date(self) -> bool:
        """Whether its values are days, without a time of the day."""
        return self.form is not None and self.form.unit == "d"

    @property
    def is_list_of_objects(self) -> bool:
        return self.form is not None and self.form.type.startswith("list<tuple<") and not self.problem

    @property
    def is_measurement(self) -> bool:
        """Whether an average of its values may mean something. Whole numbers that are 0 or 1 are flags, and others may
        be times beside zeros; a number that is always the same is a key, unless its name is that of a measurement.
        """
        if self.problem or self.form is None or not (self.form.is_number or self.form.words):
            return False
        numbers = [value for value in self.values if not isinstance(value, str | dict)]
        flags = self.form.type == "int64" and set(numbers) <= {0, 1}
        unchanging = len(self.values) >= MIN_RECORDS and len(set(map(str, self.values))) == 1
        constant = unchanging and not measures(self.meaning)
        times = 0 in numbers and unit_of_time(self.meaning, [number for number in numbers if number])
        return not times and not (flags and numbers) and not constant and not is_key(self.meaning, numbers)


def example_of(values: Sequence[Any]) -> str:
    """The first value as JSON, in one line of ASCII; empty if there is no value."""
    text = json.dumps(values[0]) if values else ""
    return text if len(text) <= MAX_EXAMPLE else f"{text[:MAX_EXAMPLE]}..."


def _spoken(path: Path) -> list[str]:
    """The names in the path. A labelled item has its label as name, and its value none."""
    names: list[str] = []
    for before, step in zip((None, *path), path, strict=False):
        if isinstance(step, Item):
            names += [step.label] if step.label else []
        elif (
            isinstance(step, str) and step not in BRANCHES | NUMBER_BRANCHES and not (_label(before) and step in VALUES)
        ):
            names.append(step)
    return names


def _label(step: str | int | None) -> str:
    return step.label if isinstance(step, Item) else ""


def path_text(steps: Path, *, quoted: int = 0) -> str:
    """The path as `from` of a schema has it: `order.items[0].price`, `order["unit price"]`.

    quoted   the number of steps at the beginning that stand in quotes in any case
    """
    quotes = [f"[{json.dumps(step)}]" for step in steps[:quoted]]
    return "".join([*quotes, *map(_step_text, steps[quoted:])]).removeprefix(".")


def _step_text(step: str | int) -> str:
    named = isinstance(step, str) and PLAIN.fullmatch(step)
    return f".{step}" if named else f"[{json.dumps(step, ensure_ascii=not str(step).isprintable())}]"


def attributes_of(listed: Sequence[Place], part: str = VALUE) -> list[Attribute]:
    """The attributes at these places, each with a name of its own."""
    names = names_of([place.path for place in listed])
    return [_attribute(name, place, part) for name, place in zip(names, listed, strict=True)]


def names_of(paths: Sequence[Path]) -> list[str]:
    """A name for each path: its last member, and as many members before it as the names need to differ."""
    lengths = [_first_length(path) for path in paths]
    while True:
        names = [_name(path, length) for path, length in zip(paths, lengths, strict=True)]
        counts = Counter(names)
        longer = [
            length + 1 if counts[name] > 1 and length < len(_parts(path)) else length
            for name, path, length in zip(names, paths, lengths, strict=True)
        ]
        if longer == lengths:
            return _numbered(names)
        lengths = longer


def _first_length(path: Path) -> int:
    parts = _parts(path)
    short = (
        len(parts[-1]) == 1 or parts[-1].lower() in GENERAL or (parts[-1] in NUMBER_BRANCHES and any(map(_label, path)))
    )
    return 2 if short and len(parts) > 1 else 1


def _name(path: Path, length: int) -> str:
    name = "_".join(_parts(path)[-length:])
    return name if ATTRIBUTE.fullmatch(name) and name not in RESERVED else _mended(name)


def _mended(name: str) -> str:
    return f"{name}_" if name in RESERVED else f"field_{name}".rstrip("_")


def _parts(path: Path) -> list[str]:
    """The members of the path as parts of a name. An item behind the first one has its position in the name."""
    parts: list[str] = []
    for before, step in zip((None, *path), path, strict=False):
        if label := _label(step):
            parts[-1:] = [*parts[-1:], _plain(label)]
        elif isinstance(step, str) and not (parts and step in BRANCHES) and not (_label(before) and step in VALUES):
            parts.append(_plain(step))
        elif isinstance(step, int) and (step or len(path) == 1):
            parts[-1:] = ["_".join([*parts[-1:], str(step)])]
    return parts or ["field"]


def _plain(name: str) -> str:
    return name if ATTRIBUTE.fullmatch(name) else re.sub(r"\W+", "_", name).strip("_")


def _numbered(names: Sequence[str]) -> list[str]:
    """The names; one that stands earlier in the list gets a number."""
    different: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{number}" for number in range(2, len(names) + 2))
        different[next(text for text in (name, *numbered) if text not in different)] = None
    return list(different)


def _attribute(name: str, place: Place, part: str) -> Attribute:
    attribute = Attribute(name, place.path, None, place.values, place.rows, place.documents, part)
    if (filled := _without_empty(attribute)) is not None:
        return filled
    fitted = fit(attribute.meaning, place.values)
    return _spelled(with_fit(attribute, fitted)) if fitted else replace(attribute, problem=_nothing_in(place.values))


def _spelled(attribute: Attribute) -> Attribute:
    """The attribute; one that may be null has no options inside of its type, which is a text."""
    form = attribute.form.without_inside if attribute.form and attribute.optional else attribute.form
    return replace(attribute, form=form)


def _without_empty(attribute: Attribute) -> Attribute | None:
    """The attribute whose empty texts count as null, with `coerce`; None if none is empty, or the others are texts."""
    nonempty = [value != "" for value in attribute.values]
    if all(nonempty) or not any(nonempty):
        return None
    values = list(compress(attribute.values, nonempty))
    form = form_of(attribute.meaning, values)
    if form is None or form.is_text or form.base64:
        return None
    rows = list(compress(attribute.rows, nonempty))
    return replace(attribute, form=replace(form, coerce=True), values=values, rows=rows)


def without_other_numbers(attributes: Sequence[Attribute]) -> list[Attribute]:
    """The attributes. Beside exact numbers that are bytes of Connect there are no others: a stream reads one kind."""
    if not any(attribute.form and attribute.form.base64 for attribute in attributes):
        return list(attributes)
    return [replace(attribute, form=attribute.form and attribute.form.without_digits) for attribute in attributes]


def with_fit(attribute: Attribute, fitted: Fit) -> Attribute:
    fits = list(map(fitted.accepts, attribute.values))
    return replace(
        attribute,
        form=fitted.form,
        values=list(compress(attribute.values, fits)),
        rows=list(compress(attribute.rows, fits)),
        unfit=[pair for pair, good in zip(attribute.numbered, fits, strict=True) if not good],
    )


def _nothing_in(values: Sequence[Any]) -> str:
    if not values:
        return "it is always null"
    return "its objects are always empty" if isinstance(values[0], dict) else "its lists are always empty"


def kinds_text(values: Sequence[Any]) -> str:
    """The kinds of the values, the most frequent first, with an example of each other one: `number in 16, text in 4
    (such as "ground")`.
    """
    (usual, count), *others = kinds(values)
    examples = {kind(value): value for value in reversed(values)}
    odd = (f"{word} in {number} (such as {example_of([examples[word]])})" for word, number in others)
    return ", ".join([f"{usual} in {count}", *odd])

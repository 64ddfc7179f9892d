"""The values of the result before that the results of empty panes repeat (empty_pane_outputs.py)."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.columns.encoding import WordColumns
from sluice.model.changes.operator_data import calls_of
from sluice.model.spec import Aggregate
from sluice.model.types import optional_of
from sluice.model.windows.empty_panes import is_key


@dataclass(frozen=True, slots=True)
class Carried:
    """The kept values of the latest result with tuples of each window partition. A value that has an error is null.

    calls        the numbers of the functions that have the value of the key
    attributes   the outputs that repeat their value: the number of the output and of the attribute
    """

    calls: tuple[int, ...]
    attributes: tuple[tuple[int, int], ...]
    columns: WordColumns

    @classmethod
    def of(cls, spec: Aggregate) -> Carried:
        """The values that the aggregate keeps; none without results of empty panes."""
        if spec.empty_panes is None:
            return cls((), (), WordColumns(()))
        calls, repeated = calls_of(spec), set(spec.empty_panes.previous)
        keys = [n for n, call in enumerate(calls) if is_key(call, spec.partition_by)]
        places = [
            (n, place)
            for n, output in enumerate(spec.outputs)
            for place, (name, _) in enumerate(output.attributes)
            if (output.stream, name) in repeated
        ]
        types = [calls[n].type for n in keys] + [spec.outputs[n].attributes[place][1].type for n, place in places]
        return cls(tuple(keys), tuple(places), WordColumns([optional_of(kind) for kind in types]))

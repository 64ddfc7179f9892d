"""What the user chooses for a draft instead of what the records suggest, and the roles of attributes that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.draft.roles import best_measurement
from sluice.draft.sampled_attributes import Attribute
from sluice.draft.sampled_records import Sample


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of a user; None: what the records suggest.

    key      the attributes by which windows are partitioned; empty: one window for all tuples
    time     the attribute that is suggested as the event time; empty: the timestamp of the record
    missing  whether records that lack an attribute have null there; else they are dead letters
    """

    key: Sequence[str] | None = None
    time: str | None = None
    missing: bool = True


AUTOMATIC = Choices()


@dataclass(frozen=True, slots=True)
class Roles:
    """The roles of the attributes in a draft.

    key             the attributes by which windows are partitioned
    time            the attribute that may be the event time; None if there is none
    measurement     the attribute whose average is computed; None if none measures something
    missing         whether attributes are optional
    time_is_chosen  whether the user has named the time
    key_is_chosen   whether the user has named another key than the records suggest
    """

    sample: Sample
    key: Sequence[Attribute]
    time: Attribute | None
    measurement: Attribute | None
    missing: bool
    time_is_chosen: bool = False
    key_is_chosen: bool = False

    @property
    def names(self) -> set[str]:
        """The names of the attributes that have a role."""
        return {attribute.name for attribute in (*self.key, self.time, self.measurement) if attribute is not None}

    def is_optional(self, attribute: Attribute) -> bool:
        return attribute.optional and self.missing

    def type_of(self, attribute: Attribute) -> str:
        """The type in the schema."""
        assert attribute.form is not None  # noqa: S101 - it has no problem
        return f"{attribute.form.type}{'?' if self.is_optional(attribute) else ''}"


def roles_of(sample: Sample, choices: Choices) -> Roles:
    named = {attribute.name: attribute for attribute in sample.usable_attributes}
    key = sample.group if choices.key is None else [named[name] for name in choices.key]
    time = sample.time if choices.time is None else named.get(choices.time)
    measurement = best_measurement(sample.attributes, [attribute.name for attribute in key])
    return Roles(
        sample, key, time, measurement, choices.missing,
        time_is_chosen=bool(choices.time), key_is_chosen=[*key] != [*sample.group],
    )  # fmt: skip

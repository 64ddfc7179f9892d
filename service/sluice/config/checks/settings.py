"""Reads the settings of a file: converts seconds to nanoseconds and replaces ${...} by the values of secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation

from sluice import time_units
from sluice.config.syntax import durations
from sluice.config.syntax.file_models.pipeline_models import FileShape
from sluice.config.syntax.problem_report import Report
from sluice.model import kafka_properties, registry_properties
from sluice.model.errors import nearest, one_of
from sluice.model.kafka_properties import Fault
from sluice.model.secrets import MASK, MASKS, MissingSecretError, is_secret, masked, substitute
from sluice.model.spec import LATENCIES, Properties, Settings
from sluice.time_units import SECOND

LIMIT = 2**63
#: seconds of the longest `latency`
LONGEST = 1
#: the URLs that name an object store
SCHEMES = ("s3", "gs", "az", "abfs", "abfss")
STATE_OPTION = re.compile(r"[a-z][a-z0-9_]*")


def state_option_faults(options: Mapping[str, str], *, complete: bool = True) -> Iterator[Fault]:  # noqa: ARG001
    """The names that no setting of `obstore`, the client of object stores, can have. The client has more than a hundred
    settings, and refuses an unknown one when the service starts.
    """
    for name in options:
        if not STATE_OPTION.fullmatch(name):
            yield Fault(name, "a setting of the object store's client, such as endpoint or region", name)


FAULTS = {
    "kafka": kafka_properties.faults,
    "registry": registry_properties.faults,
    "state_options": state_option_faults,
}


def settings(file: FileShape, environment: Mapping[str, str] | None, report: Report) -> Settings:
    return Settings(
        kafka=properties("kafka", file.kafka, environment, report),
        registry=properties("registry", file.registry, environment, report),
        clock=file.clock,
        clock_origin=None if file.clock_origin is None else origin(file.clock_origin, report),
        merge=file.merge,
        merge_wait=duration("merge_wait", file.merge_wait, report),
        max_future=duration("max_future", file.max_future, report),
        trigger_interval=duration("trigger_interval", file.trigger_interval, report),
        latency="balanced" if file.latency is None else latency(file, report),
        max_records_per_batch=file.max_records_per_batch,
        max_bytes_per_batch=file.max_bytes_per_batch,
        direct_records=file.direct_records,
        buckets=file.buckets,
        checkpoint=file.checkpoint,
        state=None if file.state is None else state(file.state, report),
        state_options=properties("state_options", file.state_options, environment, report),
        snapshot_interval=duration("snapshot_interval", file.snapshot_interval, report),
        snapshot_records=file.snapshot_records,
        durability=file.durability,
        delivery=file.delivery,
        writers=file.writers,
        on_data_loss=file.on_data_loss,
        start=file.start,
        restart=file.restart,
        class_timeout=duration("class_timeout", file.class_timeout, report),
    )


def properties(
    block: str, texts: Mapping[str, str], environment: Mapping[str, str] | None, report: Report
) -> Properties:
    """The properties of a block, with ${...} replaced by values of `environment`; None leaves ${...} unchanged.

    If the environment is None or lacks a value, only the names of the properties are checked.
    """
    values: dict[str, str] = {}
    complete = environment is not None
    for name, text in texts.items():
        try:
            values[name] = text if environment is None else substitute(text, environment)
        except MissingSecretError as missing:
            report.problem((block, name), missing.args[1], missing.args[0])
            values[name], complete = text, False
        else:
            if is_secret(name) and values[name] == text:
                MASKS.add(text, MASK)
    for fault in FAULTS[block](values, complete=complete):
        shown_value = masked(fault.got) if fault.got and fault.got != fault.name else fault.got
        hint = fault.hint if shown_value == fault.got else None  # a hint would reveal a part of a masked value
        report.problem((block, fault.name), fault.expected, shown_value, hint)
    return Properties(values)


def state(location: str, report: Report) -> str:
    """The location of the store for snapshots: a URL with one of the known schemes, or a folder."""
    scheme, is_url, path = location.partition("://")
    if is_url and scheme not in SCHEMES:
        expected = f"a folder, or a URL that begins with {one_of([f'{permitted}://' for permitted in SCHEMES])}"
        report.problem(("state",), expected, location)
    elif is_url and (set("?#") & set(path) or "" in path.rstrip("/").split("/")):
        # The client would use the part before these characters, which all pipelines would then share.
        report.problem(("state",), "a URL without ?, # and empty parts; settings belong into `state_options`", location)
    return location


def duration(name: str, seconds: float, report: Report) -> int:
    exact = Decimal(str(seconds)) * SECOND
    if exact >= LIMIT:
        report.problem((name,), f"at most {LIMIT // SECOND} seconds")
        return 0
    return int(exact)


def latency(file: FileShape, report: Report) -> str | int:
    """The word, or the nanoseconds of the duration."""
    text, path = str(file.latency).strip(), ("latency",)
    if file.trigger_interval:
        report.problem(path, "either `latency`, or `trigger_interval` with the interval itself")
    if text in LATENCIES:
        return text
    exact = durations.seconds(text)
    if exact is None or not 0 <= exact <= LONGEST:
        hint = None if exact is not None else nearest(text, LATENCIES) or durations.spelled_here(text)
        expected = f"{', '.join(LATENCIES)}, or a duration up to {LONGEST}s, such as 50ms or 0.2"
        longer = "; `trigger_interval` may be longer" if exact is not None else ""
        report.problem(path, expected + longer, text, hint)
        return "low"
    return int(exact * SECOND)


def origin(text: str, report: Report) -> int | None:
    try:
        return nanoseconds(text)
    except TimeError as error:
        report.problem(("clock_origin",), str(error))
        return None


class TimeError(ValueError):
    """A text is not a time. The message says what was expected."""


def nanoseconds(text: str) -> int:
    """Nanoseconds since 1970 of a text: seconds since 1970, or ISO 8601 (UTC if it has no zone). Raises TimeError."""
    try:
        exact = Decimal(text) * SECOND
    except InvalidOperation:
        exact = iso(text)
    if exact.is_finite() and exact == exact.to_integral_value() and -LIMIT <= exact < LIMIT:
        return int(exact)
    raise TimeError("seconds since 1970 or an ISO 8601 time such as 2013-01-01T00:00:00Z, between 1677 and 2262")


def iso(text: str) -> Decimal:
    """Nanoseconds since 1970 of an ISO 8601 text; NaN if the text is not a time."""
    try:
        return Decimal(time_units.nanoseconds(text))
    except ValueError:
        return Decimal("NaN")

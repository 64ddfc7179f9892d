"""The properties that may be given under `registry`, which are those of Confluent's schema registry client."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sluice.model.errors import nearest
from sluice.model.kafka_properties import Fault

ANY = (r"(?s).*", "a text")
NUMBER = (r"\d+(\.\d+)?", "a number")
#: property -> regular expression of its values, and their description for messages
REGISTRY = {
    "url": (
        r"(https?://[^@\s,]+)(,\s*https?://[^@\s,]+)*",
        "a URL without user and password: basic.auth.user.info has them",
    ),
    "auto.register.schemas": ("true|false", "true or false"),
    "timeout": NUMBER,
    "max.retries": (r"\d{1,3}", "a number of times"),
    "retries.wait.ms": (r"\d{1,6}", "a number of milliseconds"),
    **dict.fromkeys(
        (
            "basic.auth.credentials.source", "basic.auth.user.info", "bearer.auth.client.id",
            "bearer.auth.client.secret", "bearer.auth.credentials.source", "bearer.auth.identity.pool.id",
            "bearer.auth.issuer.endpoint.url", "bearer.auth.logical.cluster", "bearer.auth.scope", "bearer.auth.token",
            "proxy", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password",
        ),
        ANY,
    ),
}  # fmt: skip


def faults(properties: Mapping[str, str], *, complete: bool = True) -> Iterator[Fault]:
    """All faults of the properties. If `complete` is False, values may be missing, and only names are checked."""
    for name, value in properties.items():
        if name not in REGISTRY:
            yield Fault(name, "a property of Confluent's registry client", name, nearest(name, REGISTRY))
        elif complete and not re.fullmatch(REGISTRY[name][0], value):
            yield Fault(name, REGISTRY[name][1], "***" if "@" in value else value)

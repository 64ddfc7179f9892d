"""The settings that may be given under `state_options`: those of the client of the object store that `state` names.

The client is `obstore`. It has more than a hundred settings, so only the form of their names is checked here. The
client refuses an unknown name when the service starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sluice.model.kafka_properties import Fault

#: the URLs that name an object store
SCHEMES = ("s3", "gs", "az", "abfs", "abfss")
NAME = re.compile(r"[a-z][a-z0-9_]*")


def faults(properties: Mapping[str, str], *, complete: bool = True) -> Iterator[Fault]:  # noqa: ARG001 - as the others
    """All faults of the settings."""
    for name in properties:
        if not NAME.fullmatch(name):
            yield Fault(name, "a setting of the object store's client, such as endpoint or region", name)

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.recovery.harness.service import Service

NUMBERS = count()


@pytest.fixture(scope="module")
def services(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Service]]:
    """Makes services with a name and a folder of their own; none outlives the module."""
    made: list[Service] = []

    def make(text: str, **settings) -> Service:
        name = f"recovery-{next(NUMBERS)}"
        folder = tmp_path_factory.mktemp(name)
        kafka = settings.pop("kafka", {"bootstrap.servers": broker})
        made.append(Service(kafka, folder, settings.pop("name", name), text, **settings))
        return made[-1]

    yield make
    for one in made:
        one.clean_up()

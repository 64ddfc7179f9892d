from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.recovery.harness import Service

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


class Shared:
    """One service for several tests; after a test that failed the next one gets a new service."""

    def __init__(self, make: Callable[[], Service]) -> None:
        self._make = make
        self._service: Service | None = None

    def service(self) -> Service:
        """It runs, and all of its outputs so far are right. `Service.check_outputs` says so of those of this test."""
        if self._service is None or not self._service.sound:
            if self._service:
                self._service.clean_up()
            self._service = self._make()
        self._service.start()
        self._service.sound = False
        return self._service

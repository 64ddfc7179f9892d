"""One service for several tests of a module."""

from __future__ import annotations

from collections.abc import Callable

from tests.recovery.harness.service import Service
from tests.recovery.harness.sums_and_runs import tuples


def created(service: Service) -> Service:
    """The service, whose input topic now exists."""
    service.create("in")
    return service


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

    def end(self) -> None:
        """It ends in order. The next call of `service` starts it again."""
        if self._service is not None:
            self._service.end()

    def at_rest(self) -> Service:
        """It runs and rests, and 300 tuples went through it."""
        service = self.service()
        service.send("in", tuples(300))
        service.await_rest()
        return service

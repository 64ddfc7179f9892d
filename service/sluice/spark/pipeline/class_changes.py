"""Reports that the file of a user's class has changed while the service runs (FN15)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from sluice.api import class_loader

LOGGER = logging.getLogger("sluice")
#: seconds between two looks at the files
INTERVAL_S = 5.0


class ClassChanges:
    """Looks at the files of the modules that this process has loaded, and logs each change once."""

    def __init__(
        self, changed: Callable[[], Mapping[str, str]] = class_loader.changed,
        now: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._changed, self._now = changed, now
        self._next = now() + INTERVAL_S
        self._reported: frozenset[str] = frozenset()

    def look(self) -> None:
        """Called again and again. Looks at most every INTERVAL_S."""
        if self._now() < self._next:
            return
        self._next = self._now() + INTERVAL_S
        changed = self._changed()
        for module in changed.keys() - self._reported:
            LOGGER.warning(
                "a module of a class has changed; the service continues with the code that it has loaded, and uses the "
                "changed code after a restart", extra={"module_name": module, "file": changed[module]},
            )  # fmt: skip
        for module in self._reported - changed.keys():
            LOGGER.info("a module of a class is again as it was loaded", extra={"module_name": module})
        self._reported = frozenset(changed)

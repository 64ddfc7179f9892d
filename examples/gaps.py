"""The time between two readings of a sensor, and the longest so far: a windowed operator in Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from sluice import WindowHandler
from sluice.api.handler import Window


class Gaps(WindowHandler):
    input: ClassVar = {"sensor": "string", "at": "int64"}
    output: ClassVar = {"sensor": "string", "gap": "int64", "longest": "int64"}

    def after_insertion(self, window: Window, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if len(window) < 2:  # noqa: PLR2004 - a gap lies between two
            return
        before, now = window.tuples
        gap = now["at"] - before["at"]
        longest = window.memory["longest"] = max(gap, window.memory.get("longest", 0))
        yield {"sensor": row["sensor"], "gap": gap, "longest": longest}

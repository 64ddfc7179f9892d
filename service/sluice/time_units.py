"""How long things are, in nanoseconds: what every time and every duration is counted in."""

from __future__ import annotations

SECOND = 1_000_000_000
MILLISECOND = 1_000_000

#: a time before all others, where there is none yet
UNSET = -(2**63)

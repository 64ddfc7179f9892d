"""Cases that a comparison with the oracle once found wrong, each as small as it could be made."""

from __future__ import annotations

from typing import Any

FINDS: list[dict[str, Any]] = []

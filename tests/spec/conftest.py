"""What several comparisons with the oracle share."""

from __future__ import annotations

import pytest

from sluice.engine.contents import firing_results


@pytest.fixture(params=["whole", "in parts"])
def what_is_listed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much a batch lists, something is made of it at the end or in between."""
    if request.param == "in parts":
        monkeypatch.setattr(firing_results, "MOST_LISTED", 4)

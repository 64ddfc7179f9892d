"""The files beside the code: in the wheel below sluice/data, in a checkout where they are written."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent


def project_file(name: str) -> Path:
    """The file with this path in the project, for instance `deploy/ivy.xml`."""
    installed = PACKAGE / "data" / name
    return installed if installed.exists() else PACKAGE.parent.parent / name

"""The pipeline files of a folder, without the import of what reads them, which takes 0.2 s."""

from __future__ import annotations

from pathlib import Path

from sluice.model.errors import SluiceError

#: the endings of the names of pipeline files
ENDINGS = (".yaml", ".yml")


class FolderError(SluiceError):
    exit_code = 1


def files_in(folder: Path) -> list[Path]:
    """The pipeline files of a folder, not of its subfolders, in the order of their names. Hidden files are left out.

    Raises OSError if the folder cannot be read.
    """
    return sorted(path for path in folder.iterdir() if path.suffix in ENDINGS and not path.name.startswith("."))

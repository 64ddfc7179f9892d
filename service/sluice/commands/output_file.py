"""Writes a file that a user names with an option."""

from __future__ import annotations

from pathlib import Path

from sluice.model.errors import SluiceError


def write(file: Path, text: str) -> None:
    """Raises SluiceError with the reason if the file cannot be written."""
    try:
        file.write_text(text)
    except OSError as error:
        message = f"cannot write {file}: {error.strerror}"
        raise SluiceError(message) from None

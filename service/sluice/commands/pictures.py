"""Writes the story of a replay to the terminal or to a file, for `sluice replay --timeline` and `--svg`."""

from __future__ import annotations

from pathlib import Path

from sluice.model.errors import SluiceError
from sluice.pictures.story import Story


def show(story: Story, *, timeline: bool, svg: Path | None) -> None:
    """Writes the SVG file if `svg` names one, and prints the table of the steps if `timeline`."""
    if svg is not None:
        from sluice.pictures.svg_drawing import drawing  # noqa: PLC0415 - a plain replay needs neither

        write(svg, drawing(story))
    if timeline:
        from rich.console import Console  # noqa: PLC0415

        from sluice.pictures.terminal_table import table  # noqa: PLC0415

        Console().print(table(story))


def write(file: Path, text: str) -> None:
    """Raises SluiceError with the reason if the file cannot be written."""
    try:
        file.write_text(text)
    except OSError as error:
        message = f"cannot write {file}: {error.strerror}"
        raise SluiceError(message) from None

"""Shows the steps of a replay as a table or writes them as a picture, for `sluice replay --timeline` and `--svg`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from sluice.commands.output_file import write
from sluice.pictures.story import Story
from sluice.pictures.svg_drawing import drawing
from sluice.pictures.terminal_table import table


def show(story: Story, *, timeline: bool, svg: Path | None) -> None:
    """Writes the SVG file if `svg` names one, and prints the table of the steps if `timeline`."""
    if svg is not None:
        write(svg, drawing(story))
    if timeline:
        console = Console()
        console.print(table(story, console.width))

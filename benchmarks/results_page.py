"""The pages with results."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.files import project_file


def write(section: str, lines: Sequence[str], name: str = "docs/benchmarks.md") -> None:
    """Puts lines between the two comments of a section of a page."""
    page = project_file(name)
    begin, end = f"<!-- {section} -->\n", f"<!-- end of {section} -->"
    before, _, rest = page.read_text().partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(before + begin + "\n".join(lines) + f"\n{end}{after}")

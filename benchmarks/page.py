"""The page with the results, docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.files import project_file


def write(section: str, lines: Sequence[str]) -> None:
    """Puts lines between the two comments of a section."""
    page = project_file("docs/benchmarks.md")
    begin, end = f"<!-- {section} -->\n", f"<!-- end of {section} -->"
    before, _, rest = page.read_text().partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(before + begin + "\n".join(lines) + f"\n{end}{after}")

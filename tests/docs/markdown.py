"""Links and anchors of Markdown pages, with the anchors that GitHub makes of headings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

#: Folders that hold no pages of the project. Hidden folders are left out as well.
GENERATED = {"build", "dist", "checkpoints", "spark-warehouse", "node_modules", "__pycache__"}

FENCE = re.compile(r"^ {0,3}(```|~~~)")
HEADING = re.compile(r"^ {0,3}#{1,6} +(.*?)(?: +#+)? *$")
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
INLINE_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINED_LINK = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)>?")
EXPLICIT_ANCHOR = re.compile(r"<a\s[^>]*?\b(?:id|name)=\"([^\"]+)\"")
ELSEWHERE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")


class Link(NamedTuple):
    """A relative link of a page."""

    line: int
    target: str


def pages(root: Path) -> list[Path]:
    """All Markdown files below a folder, without those in hidden or generated folders."""
    found = []
    for path in sorted(root.rglob("*.md")):
        folders = path.relative_to(root).parts[:-1]
        if not any(folder.startswith(".") or folder in GENERATED for folder in folders):
            found.append(path)
    return found


def plain_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines outside of fenced code blocks, with their numbers from 1 on."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        found = FENCE.match(line)
        if found and fence in {"", found[1]}:
            fence = "" if fence else found[1]
        elif not fence:
            yield number, line


def slug(heading: str) -> str:
    """The anchor that GitHub makes of a heading, before it numbers duplicates."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"<[^>]*>", "", text).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@cache
def anchors(text: str) -> frozenset[str]:
    """The anchors of a page: its headings and its `<a id="...">`."""
    found: set[str] = set()
    seen: Counter[str] = Counter()
    for _, line in plain_lines(text):
        if heading := HEADING.match(line):
            name = slug(heading[1])
            found.add(f"{name}-{seen[name]}" if seen[name] else name)
            seen[name] += 1
        found.update(explicit_anchors(line))
    return frozenset(found)


def explicit_anchors(line: str) -> list[str]:
    """The ids of `<a id="...">` in a line, in their order."""
    return EXPLICIT_ANCHOR.findall(CODE.sub("", line))


def links(text: str) -> list[Link]:
    """The links of a page to files of the project and to anchors; links to other places (`https:`) are left out."""
    found = []
    for number, line in plain_lines(text):
        without_code = CODE.sub("", line)
        targets = [*INLINE_LINK.findall(without_code), *DEFINED_LINK.findall(without_code)]
        found += [Link(number, target) for target in targets if not ELSEWHERE.match(target)]
    return found


def fault(page: Path, target: str) -> str | None:
    """What is wrong with a link of a page; None if its file and its anchor exist."""
    name, _, anchor = unquote(target).partition("#")
    file = page.parent / name if name else page
    if not file.exists():
        return f"no file {name}"
    if anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
        return f"no anchor #{anchor} in {name or 'the page'}"
    return None

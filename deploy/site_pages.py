"""Hooks of MkDocs for the documentation site (mkdocs.yml): pages outside of docs/, anchors, links of rule ids.

The Markdown pages are written for GitHub. MkDocs differs in three points, which these functions bridge:

* It knows only the files in docs/. README.md becomes the first page of the site, other pages of PAGES follow, and each
  file of the repository that a page links to is copied into the folder files/ of the site.
* It makes other anchors of headings. The site has the anchors of GitHub, so one link serves both.
* A rule id in parentheses, `(W19)` or `(KIP W6)`, becomes a link to the rule.

The search finds pages for users before the rules in full and the inside of the service.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import TYPE_CHECKING

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
#: pages outside of docs/: their path in the repository, and their name in the site
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
SOURCES = {site: repository for repository, site in PAGES.items()}
#: the page whose rules have `KIP` in front of them elsewhere, and nothing in the page itself
KAFKA = "reference/kip450-sliding.md"

#: pages that the search ranks behind the pages for users: the rules in full, the inside, the changes
BEHIND = re.compile(
    r"(reference/.*|files/.*|divergences|architecture|state|benchmarks|rejected|chaos|contributing|changelog)\.md"
)

FENCE = re.compile(r"^ {0,3}(```|~~~)")
CODE_OR_LINK = re.compile(r"(`+(?!`).*?(?<!`)`+(?!`)|\[[^\]]*\]\([^)]*\))")
TARGET = re.compile(r"(\]\()([^)\s]+)(\))")
ELSEWHERE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|#")
ID = r"[A-Z]{1,2}\d{1,2}[ab]?"
RULES = re.compile(rf"(?<=\()(KIP )?({ID}(?:(?:, | to | and | or ){ID})*)(?=\))")
ANCHOR = re.compile(r"<a id=\"([a-z]{1,2}\d{1,2}[ab]?)\"")


def slug(heading: str, separator: str) -> str:
    """The anchor that GitHub makes of a heading (without Markdown)."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config["mdx_configs"].setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of PAGES, and every other file of the repository to which a page has a link."""
    for repository, site in PAGES.items():
        files.append(File.generated(config, site, content=(ROOT / repository).read_text(encoding="utf-8")))
    pages = [file for file in files if file.is_documentation_page()]
    for path in sorted({path for page in pages for path in linked_files(page.src_uri, page.content_string)}):
        files.append(File.generated(config, f"files/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """The Markdown of a page with the links of the site. Sets its rank in the search."""
    uri = page.file.src_uri
    page.meta["search"] = {"boost": search_rank(uri)}
    page.meta["hide"] = ["navigation"] if uri == "index.md" else []
    return "".join(line if fenced else page_line(line, uri) for line, fenced in lines(markdown))


def search_rank(uri: str) -> float:
    """The factor by which the search multiplies the score of a page."""
    return 0.2 if BEHIND.fullmatch(uri) else 1.0


def page_line(line: str, uri: str) -> str:
    """A line of a page with the links of the site."""
    parts = CODE_OR_LINK.split(TARGET.sub(lambda found: found[1] + site_target(uri, found[2]) + found[3], line))
    if uri != KAFKA:
        parts[::2] = [RULES.sub(lambda found: rule_links(found[1], found[2], uri), part) for part in parts[::2]]
    return "".join(parts)


def rule_links(kip: str | None, ids: str, uri: str) -> str:
    """The ids of a list as links to their rules. An id that no reference has stays as it is."""
    return (kip or "") + re.sub(ID, lambda found: rule_link(kip or "", found[0], uri), ids)


def rule_link(kip: str, rule: str, uri: str) -> str:
    page = RULE_PAGES.get((kip + rule).upper())
    return f"[{rule}]({relpath(page, dirname(uri) or '.')}#{rule.lower()})" if page else rule


def rule_pages() -> Iterator[tuple[str, str]]:
    """Each rule id in capital letters, with `KIP ` before those of Kafka Streams, and the page that has it."""
    for path in sorted((ROOT / "docs" / "reference").glob("*.md")):
        prefix = "KIP " if path.name == Path(KAFKA).name else ""
        for anchor in ANCHOR.findall(path.read_text(encoding="utf-8")):
            yield prefix + anchor.upper(), f"reference/{path.name}"


RULE_PAGES = dict(rule_pages())


def lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """The lines with their ends, and whether each is in a fenced code block (or is its fence)."""
    fence = ""
    for line in markdown.splitlines(keepends=True):
        found = FENCE.match(line)
        if found and fence in {"", found[1]}:
            fence = "" if fence else found[1]
            yield line, True
        else:
            yield line, bool(fence)


def repository_path(uri: str, target: str) -> str:
    """The path in the repository to which a relative link of a page leads, without its anchor."""
    source = SOURCES.get(uri, f"docs/{uri}")
    return normpath(join(dirname(source), target.partition("#")[0]))


def linked_files(uri: str, markdown: str) -> Iterator[str]:
    """The files outside of the pages to which a page links."""
    for line, fenced in lines(markdown):
        for _, target, _ in [] if fenced else TARGET.findall(re.sub(r"`[^`]*`", "", line)):
            path = repository_path(uri, target)
            if not ELSEWHERE.match(target) and path not in PAGES and not path.startswith("docs/"):
                if not (ROOT / path).is_file():
                    raise PluginError(f"{uri}: the link {target} must lead to a file: the site has no page of a folder")
                yield path


def site_target(uri: str, target: str) -> str:
    """A link of a page as the site has it, relative to the page."""
    if ELSEWHERE.match(target):
        return target
    path, (_, mark, anchor) = repository_path(uri, target), target.partition("#")
    path = path.removeprefix("docs/") if path.startswith("docs/") else PAGES.get(path, f"files/{path}")
    return relpath(path, dirname(uri) or ".") + mark + anchor

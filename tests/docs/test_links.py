"""No Markdown page of the repository has a relative link to a file or an anchor that does not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.files import project_file
from tests.docs.markdown import anchors, explicit_anchors, fault, links, pages, plain_lines, slug

README = project_file("README.md")
ROOT = README.parent
PAGES = pages(ROOT)


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_links_of_a_page_lead_somewhere(page: Path):
    found = links(page.read_text(encoding="utf-8"))
    faults = [f"line {link.line}: {link.target}: {wrong}" for link in found if (wrong := fault(page, link.target))]
    assert faults == []


def test_the_pages_of_the_documentation_are_read():
    assert README in PAGES
    assert set(project_file("docs").rglob("*.md")) <= set(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_explicit_anchors_of_a_page_are_different(page: Path):
    """A browser goes to the first of two equal anchors."""
    assert repeated_anchors(page.read_text(encoding="utf-8")) == []


def repeated_anchors(text: str) -> list[str]:
    found = explicit(text)
    return sorted({name for name in found if found.count(name) > 1})


def explicit(text: str) -> list[str]:
    return [name for _, line in plain_lines(text) for name in explicit_anchors(line)]


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Chosen where the sources disagree", "chosen-where-the-sources-disagree"),
        ("4.5 Initial fullness", "45-initial-fullness"),
        ("Windows over event time: timeInterval", "windows-over-event-time-timeinterval"),
        ("`count(n)` and `partition_by`", "countn-and-partition_by"),
        (
            "2.4 Illegal combinations and diagnostics (paraphrased)",
            "24-illegal-combinations-and-diagnostics-paraphrased",
        ),
        ("See [rules](rules.md)", "see-rules"),
        ("A - B", "a---b"),
    ],
)
def test_slugs_are_those_of_github(heading: str, expected: str):
    assert slug(heading) == expected


PAGE = """\
# A page

## Same

## Same

See <a id="x1"></a>[a file](other.md), [an anchor](other.md#here "a title") and [this page](#same-1).
`[no link](nowhere.md)` and [elsewhere](https://example.org/x.md#y), ``<a id="no"></a>``

```
## No heading
[no link](nowhere.md)
```

[defined]: <folder/third.md>
"""


def test_what_is_a_link_and_what_an_anchor():
    assert anchors(PAGE) == {"a-page", "same", "same-1", "x1"}
    assert links(PAGE) == [(7, "other.md"), (7, "other.md#here"), (7, "#same-1"), (15, "folder/third.md")]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("other.md", None),
        ("other.md#here", None),
        ("a%20file.txt", None),
        ("folder", None),
        ("#a-page", None),
        ("#a-pag", "no anchor #a-pag in the page"),
        ("other.md#there", "no anchor #there in other.md"),
        ("othr.md", "no file othr.md"),
    ],
)
def test_a_dangling_link_is_found(target: str, expected: str | None, tmp_path: Path):
    (tmp_path / "page.md").write_text("# A page\n")
    (tmp_path / "other.md").write_text("# Here\n")
    (tmp_path / "a file.txt").write_text("")
    (tmp_path / "folder").mkdir()
    assert fault(tmp_path / "page.md", target) == expected


def test_hidden_and_generated_folders_hold_no_pages(tmp_path: Path):
    for folder in (".venv", "build", "docs"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "page.md").write_text("")
    assert pages(tmp_path) == [tmp_path / "docs/page.md"]

"""What `make audit` finds, with an index and metadata of tables."""

from __future__ import annotations

from email.message import Message
from importlib.metadata import Distribution, PackageNotFoundError
from typing import Any

import pytest

from deploy.audit import ALLOWED, EVERYTHING, SHIPPED, Package, findings, is_allowed, licence, packages, vulnerabilities

NEWEST = {"info": {"version": "2.0"}, "vulnerabilities": []}
HOLE = {"id": "X-1", "aliases": ["CVE-1"], "summary": "a hole", "fixed_in": ["2.1"]}


class Metadata(Distribution):
    def __init__(self, **fields: str | list[str]) -> None:
        self._message = Message()
        for name, value in fields.items():
            for one in [value] if isinstance(value, str) else value:
                self._message[name.replace("_", "-")] = one

    metadata = property(lambda self: self._message)  # type: ignore[assignment]

    def read_text(self, filename: str) -> str | None:
        raise NotImplementedError(filename)

    def locate_file(self, path: Any) -> Any:
        raise NotImplementedError(path)


def index(**pages: Any) -> Any:
    return lambda path: pages.get(path.replace("/", "_").replace(".", "_"))


@pytest.mark.parametrize(
    ("pages", "known"),
    [
        ({"a_2_0_json": NEWEST}, []),
        ({"a_json": NEWEST}, []),
        ({"a_json": {**NEWEST, "info": {"version": "3.0"}}}, None),
        ({"a_json": {"info": {"version": "2.0"}}}, None),
        ({}, None),
        ({"a_2_0_json": {**NEWEST, "vulnerabilities": [{**HOLE, "withdrawn": "2026-01-01"}]}}, []),
        ({"a_2_0_json": {**NEWEST, "vulnerabilities": [HOLE]}}, ["X-1 (CVE-1): a hole; mended in 2.1"]),
    ],
    ids=["its page", "newest", "another version", "no list", "no page", "withdrawn", "one"],
)
def test_vulnerabilities_are_those_of_this_version(pages: Any, known: list[str] | None) -> None:
    assert vulnerabilities(Package("a", "2.0", shipped=True), index(**pages)) == known


@pytest.mark.parametrize(
    ("fields", "expression"),
    [
        ({"License_Expression": "MIT"}, "MIT"),
        ({"Classifier": ["Topic :: X", "License :: OSI Approved :: Apache Software License"]}, "Apache-2.0"),
        (
            {"Classifier": ["License :: OSI Approved :: MIT License", "License :: OSI Approved :: BSD License"]},
            "MIT OR BSD",
        ),
        ({"License": "BSD-3-Clause\nCopyright"}, "BSD-3-Clause"),
        ({}, "unknown"),
    ],
)
def test_a_licence_is_read_from_old_and_new_metadata(fields: Any, expression: str) -> None:
    assert licence(Metadata(**fields)) == expression


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0", False),
        ("GPL-3.0 OR MIT", True),
        ("MIT AND GPL-3.0", False),
        ("MPL-2.0 AND (Apache-2.0 OR GPL-3.0)", True),
        ("MPL-2.0 AND (AGPL-3.0 OR GPL-3.0)", False),
        ("BSD-2-Clause AND Apache-2.0 WITH LLVM-exception", True),
        ("unknown", False),
    ],
)
def test_each_part_of_a_licence_must_be_allowed(expression: str, *, allowed: bool) -> None:
    assert is_allowed(expression, ALLOWED) == allowed


def not_installed(name: str) -> Distribution:
    raise PackageNotFoundError(name)


def test_findings_are_vulnerabilities_unknown_versions_and_licences() -> None:
    gpl = Metadata(License_Expression="GPL-3.0")
    holed = index(a_2_0_json={**NEWEST, "vulnerabilities": [HOLE]})
    assert len(findings(Package("a", "2.0", shipped=True), holed, lambda _: gpl).wrong) == 2
    assert len(findings(Package("a", "2.0", shipped=False), holed, lambda _: gpl).wrong) == 1
    assert not findings(Package("a", "1.0", shipped=False), index(), not_installed).known
    nothing = findings(Package("a", "2.0", shipped=True), index(a_json=NEWEST), not_installed)
    assert (nothing.wrong, nothing.known) == ([], True)


def test_every_package_of_the_image_is_looked_at() -> None:
    chosen = packages(EVERYTHING.read_text(), SHIPPED.read_text())
    assert {"numpy", "confluent-kafka", "pyspark"} <= {package.name for package in chosen if package.shipped}
    assert {"ruff"} <= {package.name for package in chosen if not package.shipped}

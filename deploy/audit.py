"""`make audit`: known vulnerabilities and licences of all Python packages that `make setup` and the image install.

The package index of pip's configuration serves the vulnerabilities with each release. pip-audit asks one
index, whatever pip is configured with, and passes if that one knows no package. Licences must be among ALLOWED. Exit
code 1: there is a vulnerability, or another licence; 2: of a version nothing is known. The jars are not looked at.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import requests

ROOT = Path(__file__).parent.parent
#: the file of everything, and the file of what the image has
EVERYTHING, SHIPPED = ROOT / "requirements.lock", ROOT / "deploy" / "requirements.lock"
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(?:\s*;\s*([^\\]*))?", re.MULTILINE)
#: licences that a package may have
ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "MIT",
    "MIT-0", "MPL-2.0", "PSF-2.0", "Zlib",
}  # fmt: skip
#: licences of programs that only developers start, and that nothing is linked with
ALLOWED_TOOLS = {"GPL-3.0"}
#: words of older metadata -> the licence
MEANT = {
    "Apache Software License": "Apache-2.0", "Apache 2.0": "Apache-2.0", "Apache": "Apache-2.0", "BSD License": "BSD",
    "3-Clause BSD License": "BSD-3-Clause", "MIT License": "MIT", "CC0": "CC0-1.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}  # fmt: skip
#: ids of vulnerabilities that do not concern Sluice -> the reason
ACCEPTED: dict[str, str] = {}
REQUEST_S, AT_ONCE = 30, 8
#: the answer of the index to a path below its address; None: there is none
Index = Callable[[str], dict[str, Any] | None]


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    shipped: bool


def packages(everything: str, shipped: str) -> list[Package]:
    """The packages of the texts of both files, for this version of Python and this system."""
    inside = {name for name, *_ in pinned(shipped)}
    return [Package(name, version, name in inside) for name, version in pinned(everything)]


def pinned(text: str) -> Iterator[tuple[str, str]]:
    for name, version, _ in PINNED.findall(text):
        yield name.lower().replace("_", "-"), version


def vulnerabilities(package: Package, index: Index) -> list[str] | None:
    """What is known of this version; None if the index says nothing about it."""
    page = index(f"{package.name}/{package.version}/json") or index(f"{package.name}/json") or {}
    if page.get("info", {}).get("version") != package.version or "vulnerabilities" not in page:
        return None
    return [
        f"{one['id']} ({', '.join(one.get('aliases') or [])}): {one.get('summary') or one.get('details', '')[:200]}; "
        f"mended in {', '.join(one.get('fixed_in') or []) or 'no version'}"
        for one in page["vulnerabilities"]
        if not one.get("withdrawn") and one["id"] not in ACCEPTED
    ]


def licence(found: Distribution) -> str:
    """The licence as an expression of SPDX, as far as the metadata have one."""
    metadata = found.metadata
    if expression := metadata.get("License-Expression"):
        return expression
    classes = [text.rpartition(" :: ")[2] for text in metadata.get_all("Classifier") or [] if "License ::" in text]
    words = [MEANT.get(text, text) for text in classes] or [(metadata.get("License") or "unknown").splitlines()[0]]
    return " OR ".join(MEANT.get(text, text) for text in words)


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Whether each part that AND joins has an allowed licence among the licences that OR joins."""
    parts = re.split(r"\s+AND\s+(?![^(]*\))", expression)
    return all(any(one.strip("() ") in allowed for one in part.split(" OR ")) for part in parts)


@dataclass(frozen=True)
class Findings:
    """About a package: its row, what is wrong with it, and whether its vulnerabilities are known."""

    row: str
    wrong: list[str]
    known: bool


def findings(package: Package, index: Index, installed: Callable[[str], Distribution]) -> Findings:
    known = vulnerabilities(package, index)
    try:
        words = licence(installed(package.name))
    except PackageNotFoundError:
        words = "not installed here"
    allowed = ALLOWED if package.shipped else ALLOWED | ALLOWED_TOOLS
    wrong = [f"{package.name} {package.version}: {one}" for one in known or ()]
    if words != "not installed here" and not is_allowed(words, allowed):
        wrong.append(f"{package.name} {package.version}: the licence {words} is not among the allowed ones")
    shown = "unknown" if known is None else len(known)
    row = f"| {package.name} | {package.version} | {'yes' if package.shipped else ''} | {words} | {shown} |"
    return Findings(row, wrong, known is not None)


def index_of_pip() -> Index:
    """The index that pip is configured with."""
    from pip._internal.models.index import PyPI  # noqa: PLC0415 - the index of a pip without configuration

    given = configured("index-url").rstrip("/")
    base = f"{given.removesuffix('/simple')}/pypi" if given else PyPI.pypi_url.rstrip("/")
    session = requests.Session()
    session.verify = configured("cert") or True

    def answer(path: str) -> dict[str, Any] | None:
        response = session.get(f"{base}/{path}", timeout=REQUEST_S)
        found: dict[str, Any] | None = response.json() if response.ok else None
        return found

    return answer


def configured(option: str) -> str:
    """The value of an option of pip, empty without one."""
    if value := os.environ.get(f"PIP_{option.upper().replace('-', '_')}"):
        return value
    command = [sys.executable, "-m", "pip", "config", "get", f"global.{option}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main() -> int:
    index = index_of_pip()
    chosen = packages(EVERYTHING.read_text(), SHIPPED.read_text())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda package: findings(package, index, distribution), chosen))
    print("| package | version | in the image | licence | vulnerabilities |\n| --- | --- | --- | --- | --- |")  # noqa: T201
    wrong = [what for one in found for what in one.wrong]
    unknown = sum(not one.known for one in found)
    summary = f"{len(found)} packages, {len(wrong)} findings; the index has no list for {unknown} of these versions"
    print(*(one.row for one in found), "", *wrong, summary, sep="\n")  # noqa: T201
    return 1 if wrong else 2 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.jvm import java
from sluice.jvm.java import JavaError, find_java

JAVA_17 = 'openjdk version "17.0.15" 2025-04-15'
JAVA_11 = 'openjdk version "11.0.22" 2024-01-16'
JAVA_8 = 'java version "1.8.0_402"'
JAVA_26 = 'openjdk version "26-ea" 2026-03-17'


def install(home: Path, says: str) -> str:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("says", [JAVA_17, JAVA_26])
def test_java_home_goes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    program = install(tmp_path, says)
    monkeypatch.setenv("PATH", f"{tmp_path / 'none'}:/bin:/usr/bin")
    assert find_java() == program


@pytest.mark.parametrize(("says", "found"), [(JAVA_11, "is Java 11"), (JAVA_8, "is Java 8")])
def test_an_old_java_is_named_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, found: str
) -> None:
    install(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match=rf"Java 17 or newer is needed, and .*{found}.*apt install openjdk-17"):
        find_java()


def test_a_java_that_does_not_run_is_cited_with_the_limit_on_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "Error occurred during initialization of VM")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match=r"bin/java does not run: Error occurred during initialization of VM$"):
        find_java()
    limits = {java.resource.RLIMIT_AS: 2 << 30, java.resource.RLIMIT_NOFILE: 256}
    monkeypatch.setattr(java.resource, "getrlimit", lambda kind: (limits[kind], limits[kind]))
    words = r"2048 MiB of address space \(ulimit -v\) and 256 open files \(ulimit -n\)$"
    with pytest.raises(JavaError, match=f"of VM; a process may have only {words}"):
        find_java()


def test_what_the_virtual_machine_says_on_its_standard_output_is_cited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Path(install(tmp_path, ""))
    program.write_text("#!/bin/sh\necho 'Could not allocate compressed class space'\nexit 1\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match="does not run: Could not allocate compressed class space"):
        find_java()


def test_no_java_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaError, match=r"there is no java on PATH\. Install one"):
        find_java()


def test_a_java_home_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match=r"JAVA_HOME is .*, which has no bin/java"):
        find_java()

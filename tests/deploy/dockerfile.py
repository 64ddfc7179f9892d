"""Reads a Dockerfile, and does what it says in a folder of this machine: there need not be any Docker."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

log = logging.getLogger("image")
#: the beginning of the lines with which a step of the Dockerfile says how far it is
PROGRESS = "sluice: "
#: folders of the image -> where they are below the folder that stands for its root
FOLDERS = ("/opt/", "/src", "/var/lib/sluice")
#: commands for an image only: they change the system
SYSTEM = ("apt-get", "useradd")


def instructions(text: str) -> list[tuple[str, str]]:
    """(word, the rest) of each instruction, without comments and line ends."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    pairs = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [(word, rest.strip()) for word, rest in pairs]


def interpreter() -> Path:
    """A Python like ours that any user may start; ours may be in root's home."""
    name = f"python3.{sys.version_info.minor}"
    found = [Path(sys.base_prefix, "bin", name).resolve(), Path("/usr/bin", name), Path("/usr/local/bin", name)]
    return next((path for path in found if path.exists() and _for_all(path)), found[0])


def _for_all(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in path.parents)


def ran(command: str, environment: dict[str, str]) -> tuple[int, str]:
    """The exit status and the output of a command of the shell. Its lines about progress go to the log at once."""
    lines = []
    with subprocess.Popen(
        ["/bin/sh", "-ec", command], env=environment, cwd="/", text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if line.startswith(PROGRESS):
                log.info("%s", line.rstrip())
    return process.returncode, "".join(lines)


@dataclass
class Image:
    """`root` has the files of the image that are not the system's, `environment` its variables."""

    project: Path
    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    entrypoint: list[str] = field(default_factory=list)
    workdir: Path = Path("/")

    def build(self) -> None:
        tools = self.root / "tools"
        tools.mkdir(parents=True)
        (tools / "python").symlink_to(interpreter())
        self.environment = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": os.environ.get("HOME", "/")}
        for word, rest in instructions((self.project / "Dockerfile").read_text()):
            step = getattr(self, f"_{word.lower()}", None)
            if step:
                started = time.monotonic()
                step(rest)
                log.info("%s %s: %.0f s", word, rest[:80], time.monotonic() - started)

    def here(self, text: str) -> str:
        """With the paths of this machine."""
        for folder in FOLDERS:
            text = re.sub(rf"(?<![\w/]){folder}", f"{self.root}{folder}", text)
        return text

    def _env(self, rest: str) -> None:
        for pair in shlex.split(rest):
            name, _, value = self.here(pair).partition("=")
            self.environment[name] = value.replace("$PATH", self.environment["PATH"])

    def _copy(self, rest: str) -> None:
        if rest.startswith("--from=build"):
            return  # both stages share the folder
        *sources, target = rest.split()
        for source in sources:
            found, to = self.project / source, Path(self.here(target))
            if found.is_dir():
                shutil.copytree(found, to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                to = to / found.name if target.endswith("/") else to
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, to)

    def _run(self, rest: str) -> None:
        command = self.here(rest).replace("--no-cache-dir", "")  # which saves space in an image only
        if not any(word in command for word in SYSTEM):
            inherited = {name: value for name, value in os.environ.items() if name.lower().startswith(("pip_", "ssl_"))}
            environment = inherited | {n: v for n, v in os.environ.items() if n.lower().endswith("_proxy")}
            log.info("RUN %s", command[:160])
            code, output = ran(command, environment | self.environment)
            assert code == 0, f"{command}\n{output}"

    def _workdir(self, rest: str) -> None:
        self.workdir = Path(self.here(rest))

    def _volume(self, rest: str) -> None:
        """Writable by anybody, as the test runs as one user and the image as another."""
        folder = Path(self.here(rest))
        folder.mkdir(parents=True)
        folder.chmod(0o777)

    def _entrypoint(self, rest: str) -> None:
        self.entrypoint = json.loads(rest)

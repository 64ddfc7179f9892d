"""A real Prometheus with the configuration and the rules of the repository."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from sluice.files import project_file
from sluice.processes import ChildProcess

PROMETHEUS = shutil.which("prometheus") or "prometheus"
FOLDER = project_file("deploy/prometheus")
#: the kernels may have to be compiled first
SECONDS = 300.0


class Prometheus:
    """A real one, with our configuration but for the target and how often it is read."""

    def __init__(self, folder: Path, serving: int, asking: int) -> None:
        config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
        config["global"] |= {"scrape_interval": "500ms", "evaluation_interval": "1s"}
        config["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{serving}"]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        shutil.copy(FOLDER / "rules.yml", folder)
        self._url = f"http://127.0.0.1:{asking}/api/v1"
        self._process = ChildProcess(
            [
                *(PROMETHEUS, f"--config.file={folder / 'prometheus.yml'}"),
                *(f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{asking}"),
            ],
            folder=folder,
            log=folder / "prometheus.log",
        )
        await_(self._answers, (folder / "prometheus.log").read_text)

    def stop(self) -> None:
        self._process.terminate(10)

    def ask(self, path: str, **parameters: str) -> Any:
        with urlopen(f"{self._url}/{path}?{urlencode(parameters)}", timeout=10) as answer:  # noqa: S310 - our own
            return json.load(answer)["data"]

    def samples(self, query: str) -> list[float]:
        return [float(one["value"][1]) for one in self.ask("query", query=query)["result"]]

    def value(self, query: str) -> float:
        return max(self.samples(query), default=-1.0)

    def _answers(self) -> bool:
        try:
            return self.ask("query", query="1") is not None
        except URLError:
            return False


def await_(happened: Callable[[], bool], log: Callable[[], str]) -> None:
    deadline = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < deadline, log()[-3000:]
        time.sleep(0.2)

"""Finds and loads the pipeline files of a service, with the options of its command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from sluice.config.load import load
from sluice.model.errors import PipelineError, Problem
from sluice.model.kafka_properties import require_servers
from sluice.model.spec import Pipeline
from sluice.planning.pipeline_set import problems


class Wanted(NamedTuple):
    """A pipeline that should run, and the path of its file."""

    file: str
    pipeline: Pipeline


@dataclass
class Loader:
    """Gives the pipeline of a file. Raises PipelineError if the file is wrong, and ServersError if neither the file nor
    the command line names a broker: without one the service would find that out only with its first request.

    overrides   keys that the command line sets in place of the file
    parent      folder with the checkpoints of all pipelines: each is in the subfolder with the name of its pipeline.
                None: each file names its own
    mask        called with all secrets of the files so far, before anything of a new file can get into the log
    """

    overrides: Mapping[str, Any]
    parent: Path | None
    mask: Callable[[Iterable[str]], None]
    _secrets: set[str] = field(default_factory=set)

    def __call__(self, path: Path) -> Pipeline:
        pipeline = load(path, overrides=self.overrides)
        self._secrets.update(pipeline.settings.kafka.secrets)
        self.mask(self._secrets)
        require_servers(pipeline.settings.kafka, str(path))
        if self.parent is None:
            return pipeline
        return replace(pipeline, settings=replace(pipeline.settings, checkpoint=str(self.parent / pipeline.name)))


def load_all(paths: Iterable[Path], load_one: Callable[[Path], Pipeline]) -> dict[str, Pipeline]:
    """The pipelines of all these files, by path. Raises PipelineError with the problems of all of them."""
    found: dict[str, Pipeline] = {}
    wrong: list[Problem] = []
    for path in paths:
        try:
            found[str(path)] = load_one(path)
        except PipelineError as error:
            wrong.extend(error.problems)
    wrong.extend(problems(found))
    if wrong:
        raise PipelineError(wrong)
    return found

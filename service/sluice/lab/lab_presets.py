"""The pipelines that the lab offers: the examples of the project, and the file that the command names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.files import project_file, read_file
from sluice.lab.lab_answer import MAX_EVENTS, Event, parsed
from sluice.model.errors import SluiceError

#: the example that the lab starts with
FIRST = "moving_average"


@dataclass(frozen=True, slots=True)
class Preset:
    """`path` is the file from which `text` comes: schema files are looked for beside it."""

    name: str
    path: str
    text: str
    events: tuple[Event, ...]


def presets(file: Path | None, events: Path | None) -> Mapping[str, Preset]:
    """The presets by name: the user's own file, the examples that have events, and the other examples."""
    found = {}
    if file is not None:
        found[file.name] = _preset(file.name, file, events)
    folder = project_file("examples")
    for example in sorted(folder.rglob("*.yaml"), key=lambda one: _order(one, folder)):
        name = str(example.relative_to(folder).with_suffix(""))
        found.setdefault(name, _preset(name, example, example.with_suffix(".jsonl")))
    return found


def recorded(name: str, path: str, text: str, events: Sequence[Event]) -> Preset:
    """A pipeline with records of a topic: the newest, of which the lab takes MAX_EVENTS."""
    return Preset(name, path, text, tuple(events[-MAX_EVENTS:]))


def as_text(event: Event) -> Event:
    """The event with its content, an object, as JSON text: a number of JavaScript would round a large int64."""
    return {
        key: json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value for key, value in event.items()
    }


def _order(example: Path, folder: Path) -> tuple[bool, bool, bool, str]:
    """The first example, then those with events, those of the folder itself before those of its folders."""
    return not example.with_suffix(".jsonl").exists(), example.stem != FIRST, example.parent != folder, str(example)


def _preset(name: str, file: Path, events: Path | None) -> Preset:
    known = parsed(_text(events)) if events is not None and events.exists() else []
    return Preset(name, str(file), _text(file), tuple(known))


def _text(path: Path) -> str:
    try:
        return read_file(path).decode("utf-8-sig")
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise SluiceError(message) from None
    except UnicodeDecodeError:
        message = f"cannot read {path}: it is not UTF-8"
        raise SluiceError(message) from None

"""Secrets come from the environment or from files, and are never shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

#: ${NAME}, ${file:PATH}; $${ is a plain ${
PLACE = re.compile(r"\$\$\{|\$\{(?P<file>file:)?(?P<name>[^}]*)\}")
SECRET = re.compile(r"password|secret|token|jaas|oauthbearer\.config|\.pem$|user\.info|credential", re.IGNORECASE)


class MissingSecretError(LookupError):
    """What stands in the file and what was looked for."""


def substitute(text: str, environment: Mapping[str, str]) -> str:
    """`text` with the values of the variables and files that it names. Raises MissingSecretError."""
    return PLACE.sub(lambda found: looked_up(found, environment), text)


def looked_up(found: re.Match[str], environment: Mapping[str, str]) -> str:
    name = found["name"]
    if name is None:
        return "${"
    if found["file"]:
        return contents(name)
    if name not in environment:
        raise MissingSecretError(found[0], f"the environment variable {name}")
    return environment[name]


def contents(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError):
        raise MissingSecretError(f"${{file:{path}}}", f"a text file {path} that can be read") from None


def is_secret(property_name: str) -> bool:
    return bool(SECRET.search(property_name))

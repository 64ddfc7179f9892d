"""Values from the environment or from files, which no message ever shows.

`substitute` puts the values in place of ${...} and registers each one. `masked` puts ${...} back in place of the
registered values in any text. Messages, the log and the output of Spark's processes pass through it, so it does not
matter which property a value was for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from sluice.files import read_file

#: ${NAME}, ${file:PATH}; $${ is a plain ${
PLACE = re.compile(r"\$\$\{|\$\{(?P<file>file:)?(?P<name>[^}]*)\}")
SECRET = re.compile(r"password|secret|token|jaas|oauthbearer\.config|\.pem$|user\.info|credential", re.IGNORECASE)
#: in place of a secret that stands in the file itself
MASK = "****"
#: parts of a value with fewer characters are masked with the whole value alone
SHORT_PART = 4
#: values with fewer characters are masked where they stand as words: `1`, but not the 1 of `2013`
SHORT_VALUE = 4


class MissingSecretError(LookupError):
    """What stands in the file and what was looked for."""


class Masks:
    """Texts that must not be shown, and what is shown instead."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def __bool__(self) -> bool:
        return bool(self._shown)

    def add(self, value: str, shown: str) -> None:
        """Masks the value, its parts, and both as other programs write them; the first registration counts."""
        known = len(self._shown)
        for text in filter(str.strip, spellings(value)):
            self._shown.setdefault(text, shown)
        if len(self._shown) > known:
            longest_first = sorted(self._shown, key=len, reverse=True)  # one may hold another
            self._pattern = re.compile("|".join(map(_pattern, longest_first)))

    def clear(self) -> None:
        self._shown, self._pattern = {}, None

    def masked(self, text: str) -> str:
        return self._pattern.sub(lambda found: self._shown[found[0]], text) if self._pattern else text


MASKS = Masks()
#: with each registered value as the place in the file that it came from
masked = MASKS.masked


def spellings(value: str) -> Iterator[str]:
    """The value and its parts, as they are and with the escapes of JSON, Python and Java's login configuration."""
    for text in (value, *(part for part in parts(value) if len(part) >= SHORT_PART)):
        yield text
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield repr(text)[1:-1]


def parts(value: str) -> Iterator[str]:
    """Lines of a PEM text, brokers of a list, and the password of `user:password`."""
    for part in re.split(r"[\s,;]+", value):
        if not part.startswith("-----"):
            yield part
    user, colon, password = value.partition(":")
    if colon and user.isidentifier() and not password.isdecimal():
        yield password


def _pattern(text: str) -> str:
    return re.escape(text) if len(text) >= SHORT_VALUE else rf"(?<!\w){re.escape(text)}(?!\w)"


def substitute(text: str, environment: Mapping[str, str]) -> str:
    """`text` with the values of the variables and files that it names. Raises MissingSecretError."""
    return PLACE.sub(lambda found: looked_up(found, environment), text)


def looked_up(found: re.Match[str], environment: Mapping[str, str]) -> str:
    name = found["name"]
    if name is None:
        return "${"
    if found["file"]:
        value = contents(name)
    elif name in environment:
        value = environment[name]
    else:
        raise MissingSecretError(found[0], f"the environment variable {name}")
    MASKS.add(value, found[0])
    return value


def contents(path: str) -> str:
    try:
        return read_file(path).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise MissingSecretError(f"${{file:{path}}}", f"a text file {path} in UTF-8") from None
    except OSError as error:
        raise MissingSecretError(
            f"${{file:{path}}}", f"a text file {path} that can be read ({error.strerror})"
        ) from None


def is_secret(property_name: str) -> bool:
    return bool(SECRET.search(property_name))

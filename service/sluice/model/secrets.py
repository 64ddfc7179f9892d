"""Secrets: values of ${...} from the environment or from files, which no message may show.

`substitute` replaces ${...} by the values and registers each value. `masked` replaces the registered values in any text
by ${...} again. Messages, the log and the output of Spark's processes pass through `masked`. Therefore a value is
hidden whichever property it was used for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from sluice.files import read_file

#: ${NAME} or ${file:PATH}; $${ stands for the two characters ${
REFERENCE = re.compile(r"\$\$\{|\$\{(?P<file>file:)?(?P<name>[^}]*)\}")
SECRET = re.compile(
    r"password|secret|token|jaas|oauthbearer\.config|\.pem$|user\.info|credential|account_key|sas_key", re.IGNORECASE
)
#: replaces a secret that is written in the pipeline file itself
MASK = "****"
#: a part of a value with fewer characters is masked only as a part of the whole value
SHORT_PART = 4
#: a value with fewer characters is masked only where it is a whole word: `1`, but not the 1 in `2013`
SHORT_VALUE = 4


class MissingSecretError(LookupError):
    """A value of ${...} is missing. The arguments are the text in the pipeline file, and what was expected."""


class Masks:
    """The registered texts that must not be shown, and the text that replaces each."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def __bool__(self) -> bool:
        return bool(self._shown)

    def add(self, value: str, shown: str) -> None:
        """Registers the value, its parts, and their escaped forms. If a text is registered twice, the first counts."""
        count_before = len(self._shown)
        for text in filter(str.strip, spellings(value)):
            self._shown.setdefault(text, shown)
        if len(self._shown) > count_before:
            longest_first = sorted(self._shown, key=len, reverse=True)  # a text may contain another
            self._pattern = re.compile("|".join(map(_pattern, longest_first)))

    def clear(self) -> None:
        self._shown, self._pattern = {}, None

    def masked(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._shown[match[0]], text) if self._pattern else text


MASKS = Masks()
#: the function that replaces each registered value in a text by ${...} or MASK
masked = MASKS.masked


def spellings(value: str) -> Iterator[str]:
    """The value and its parts, as they are and with the escapes of JSON, Python and Java's login configuration."""
    for text in (value, *(part for part in parts(value) if len(part) >= SHORT_PART)):
        yield text
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield repr(text)[1:-1]


def parts(value: str) -> Iterator[str]:
    """The parts of a value: lines of a PEM text, brokers of a list, and the password of `user:password`."""
    for part in re.split(r"[\s,;]+", value):
        if not part.startswith("-----"):
            yield part
    user, colon, password = value.partition(":")
    if colon and user.isidentifier() and not password.isdecimal():
        yield password


def _pattern(text: str) -> str:
    return re.escape(text) if len(text) >= SHORT_VALUE else rf"(?<!\w){re.escape(text)}(?!\w)"


def substitute(text: str, environment: Mapping[str, str]) -> str:
    """The text with ${...} replaced by the values of variables and files. Raises MissingSecretError."""
    return REFERENCE.sub(lambda match: looked_up(match, environment), text)


def looked_up(match: re.Match[str], environment: Mapping[str, str]) -> str:
    name = match["name"]
    if name is None:
        return "${"
    if match["file"]:
        value = contents(name)
    elif name in environment:
        value = environment[name]
    else:
        raise MissingSecretError(match[0], f"the environment variable {name}")
    MASKS.add(value, match[0])
    return value


def contents(path: str) -> str:
    try:
        return read_file(path).decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise MissingSecretError(f"${{file:{path}}}", f"a text file {path} in UTF-8") from None
    except OSError as error:
        raise MissingSecretError(
            f"${{file:{path}}}", f"a text file {path} that can be read ({error.strerror})"
        ) from None


def is_secret(property_name: str) -> bool:
    return bool(SECRET.search(property_name))

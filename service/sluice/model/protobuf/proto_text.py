"""Reads the text of a `.proto` file: proto2, proto3 and editions. No compiler is needed.

Services, extensions and options without an effect on records are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from sluice.model.protobuf.proto_file import EnumText, FieldText, FileText, MessageText, ProtobufError

TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<word>[A-Za-z_][\w]*(?:\.[A-Za-z_]\w*)*|\.[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
      | (?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
      | (?P<sign>[-+{}()\[\]<>=;,:/.])""",
    re.VERBOSE | re.DOTALL,
)  # fmt: skip
ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
LABELS = ("optional", "required", "repeated")
#: the deepest nesting of messages
MAX_DEPTH = 100


class Token(NamedTuple):
    kind: str
    text: str
    line: int


def read_text(name: str, text: str) -> FileText:
    """The definitions in the text of a file. Raises ProtobufError, whose message has the line."""
    return _Reader(name, _tokens(name, text)).file()


def _tokens(name: str, text: str) -> list[Token]:
    tokens, at, line = [], 0, 1
    while at < len(text):
        token = TOKEN.match(text, at)
        if token is None:
            raise ProtobufError(f"{name}, line {line}: a word, a number or a sign, got {text[at]!r}")
        if token.lastgroup != "space":
            tokens.append(Token(str(token.lastgroup), token[0], line))
        line += token[0].count("\n")
        at = token.end()
    return [*tokens, Token("end", "the end of the file", line)]


class _Reader:
    """A parser by recursive descent: one method for each construct, `self.at` is the index of the next token."""

    def __init__(self, name: str, tokens: list[Token]) -> None:
        self.name, self.tokens, self.at, self.depth = name, tokens, 0, 0

    # ---- tokens ----

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def fail(self, expected: str) -> NoReturn:
        raise ProtobufError(f"{self.name}, line {self.next.line}: {expected}, got {self.next.text}")

    def take(self, kind: str, expected: str) -> str:
        token = self.next
        if token.kind != kind:
            self.fail(expected)
        self.at += 1
        return token.text

    def has(self, text: str) -> bool:
        """Whether the next token is this word or sign; then it is taken."""
        taken = self.next.text == text and self.next.kind != "text"
        self.at += taken
        return taken

    def need(self, text: str) -> None:
        if not self.has(text):
            self.fail(f"`{text}`")

    def word(self, what: str) -> str:
        return self.take("word", what)

    def string(self, what: str) -> str:
        parts = [self.take("text", what)]
        while self.next.kind == "text":
            parts.append(self.take("text", what))
        return "".join(ESCAPE.sub(_escaped, part[1:-1]) for part in parts)

    def integer(self, what: str) -> int:
        sign = -1 if self.has("-") else 1
        text = self.take("number", what)
        octal = len(text) > 1 and text[0] == "0" and text.isdigit()
        try:
            return sign * int(text, 8 if octal else 0)
        except ValueError:
            self.at -= 1
            self.fail(what)

    # ---- a file ----

    def file(self) -> FileText:
        file = FileText(self.name)
        rules: dict[str, Callable[[], object]] = {
            "syntax": lambda: self.syntax(file),
            "edition": lambda: self.syntax(file),
            "package": lambda: self.package(file),
            "import": lambda: self.imported(file),
            "option": lambda: self.option(file.features),
            "message": lambda: file.messages.append(self.message()),
            "enum": lambda: file.enums.append(self.enum()),
            "extend": lambda: self.extension(file.messages),
            "service": self.service,
        }
        while self.next.kind != "end":
            if not self.has(";"):
                if self.next.text not in rules:
                    self.fail("message, enum, import, package, option, extend or service")
                rules[self.word("a definition")]()
        return file

    def syntax(self, file: FileText) -> None:
        self.need("=")
        file.syntax = self.string("the syntax in quotes")
        self.need(";")

    def package(self, file: FileText) -> None:
        file.package = self.word("the name of a package")
        self.need(";")

    def imported(self, file: FileText) -> None:
        if self.next.kind == "word":
            self.word("public, weak or option")
        file.imports.append(self.string("the name of a file in quotes"))
        self.need(";")

    def service(self) -> None:
        self.word("the name of a service")
        self.skip_block()

    def extension(self, groups: list[MessageText]) -> None:
        """Reads the fields of an extension, which are dropped: records with them have unknown fields."""
        self.word("the name of a message")
        dropped = MessageText("")
        self.body(dropped)
        groups += dropped.messages

    # ---- messages ----

    def message(self) -> MessageText:
        message = MessageText(self.word("the name of a message"))
        self.body(message)
        return message

    def body(self, message: MessageText) -> None:
        self.need("{")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"messages that are nested at most {MAX_DEPTH} deep")
        while not self.has("}"):
            self.member(message, "")
        self.depth -= 1

    def member(self, message: MessageText, oneof: str) -> None:
        """Reads one definition within a message or a oneof."""
        start = self.at
        if self.has(";"):
            return
        word = self.word("a field or a definition")
        rules: dict[str, Callable[[], object]] = {
            "message": lambda: message.messages.append(self.message()),
            "enum": lambda: message.enums.append(self.enum()),
            "option": lambda: self.option(message.features),
            "oneof": lambda: self.oneof(message),
            "extend": lambda: self.extension(message.messages),
            "extensions": self.skip_statement,
            "reserved": self.skip_statement,
        }
        if word in rules and not self.is_field(start):
            rules[word]()
        else:
            self.at = start
            self.field(message, oneof)

    def is_field(self, start: int) -> bool:
        """Whether the definition is a field whose type has a reserved word as name: `enum x = 1;`."""
        rest = [(token.kind, token.text) for token in self.tokens[start + 1 : start + 4]]
        return [kind for kind, _ in rest] == ["word", "sign", "number"] and rest[1][1] == "="

    def oneof(self, message: MessageText) -> None:
        name = self.word("the name of a oneof")
        self.need("{")
        while not self.has("}"):
            if self.next.text == "option" and not self.is_field(self.at):
                self.at += 1
                self.option({})
            else:
                self.member(message, name)

    def field(self, message: MessageText, oneof: str) -> None:
        label = self.next.text if self.next.text in LABELS else ""
        self.at += bool(label)
        type_ = self.word("the type of a field")
        if type_ == "map" and self.has("<"):
            self.map_field(message)
            return
        if type_ == "group":
            self.group(message, label, oneof)
            return
        field = FieldText(self.word("the name of a field"), self.number(), type_, label, oneof)
        self.field_options(field)
        self.need(";")
        message.fields.append(field)

    def number(self) -> int:
        self.need("=")
        return self.integer("the number of a field")

    def map_field(self, message: MessageText) -> None:
        key = self.word("the type of the keys")
        self.need(",")
        value = self.word("the type of the values")
        self.need(">")
        name = self.word("the name of a field")
        entry = MessageText(_entry(name), [FieldText("key", 1, key), FieldText("value", 2, value)], map_entry=True)
        field = FieldText(name, self.number(), entry.name, "repeated")
        self.field_options(field)
        self.need(";")
        message.messages.append(entry)
        message.fields.append(field)

    def group(self, message: MessageText, label: str, oneof: str) -> None:
        name = self.word("the name of a group")
        field = FieldText(name.lower(), self.number(), name, label, oneof, group=True)
        self.field_options(field)
        inner = MessageText(name)
        self.body(inner)
        message.messages.append(inner)
        message.fields.append(field)

    def field_options(self, field: FieldText) -> None:
        if not self.has("["):
            return
        while True:
            name, value = self.option_name(), self.option_value()
            if name == "default":
                field.default = value
            elif name == "packed":
                field.packed = value == "true"
            elif name.startswith("features."):
                field.features[name.removeprefix("features.")] = value
            if self.has("]"):
                return
            self.need(",")

    # ---- enums ----

    def enum(self) -> EnumText:
        enum = EnumText(self.word("the name of an enum"))
        self.need("{")
        while not self.has("}"):
            self.enum_member(enum)
        return enum

    def enum_member(self, enum: EnumText) -> None:
        if self.has(";"):
            return
        word = self.word("the name of a value")
        if word == "option" and self.next.text != "=":
            self.option(enum.features)
        elif word == "reserved" and self.next.text != "=":
            self.skip_statement()
        else:
            self.need("=")
            enum.values.append((word, self.integer("the number of a value")))
            self.field_options(FieldText("", 0, ""))
            self.need(";")

    # ---- options, and what is skipped ----

    def option(self, features: dict[str, str]) -> None:
        name, value = self.option_name(), self.option_value()
        if name.startswith("features."):
            features[name.removeprefix("features.")] = value
        self.need(";")

    def option_name(self) -> str:
        name = ""
        while not self.has("="):
            if self.next.kind not in ("word", "sign") or self.next.text in (";", "{", "}"):
                self.fail("the name of an option")
            name += self.next.text
            self.at += 1
        return name

    def option_value(self) -> str:
        """The text of the value; empty for a value in braces."""
        if self.next.text == "{":
            self.skip_block()
            return ""
        if self.next.kind == "text":
            return self.string("a value")
        sign = "-" if self.has("-") else ""
        if self.next.kind not in ("word", "number"):
            self.fail("a value")
        self.at += 1
        return sign + self.tokens[self.at - 1].text

    def skip_statement(self) -> None:
        while not self.has(";"):
            if self.next.kind == "end":
                self.fail("`;`")
            self.at += 1

    def skip_block(self) -> None:
        self.need("{")
        depth = 1
        while depth:
            if self.next.kind == "end":
                self.fail("`}`")
            depth += self.next.text == "{"
            depth -= self.next.text == "}"
            self.at += 1


def _entry(field: str) -> str:
    """The name of the message that is the entry of a map: `MyFieldEntry` of `my_field`."""
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"


def _escaped(escape: re.Match[str]) -> str:
    octal, hexadecimal, short, long, letter = escape.groups()
    if octal is not None:
        return chr(int(octal, 8))
    digits = hexadecimal or short or long
    if digits is None:
        return ESCAPED.get(letter, letter)
    if int(digits, 16) > 0x10FFFF:  # noqa: PLR2004 - the last character of Unicode
        raise ProtobufError(f"a character of Unicode, got {escape[0]}")
    return chr(int(digits, 16))

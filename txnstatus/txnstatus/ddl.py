"""Types and columns as text, in the words of Spark SQL: `bigint`, `map<string,array<int>>`, "id bigint NOT NULL, ...".

Read in one pass over the text, whatever it holds.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from txnstatus.errors import InvalidArgument
from txnstatus.names import check_column_name, fold, quoted

ATOMIC = frozenset(
    [
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
    ]
)
VOID = "void"
"""The type of a column of data that has no values at all."""
_SYNONYMS = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "timestamp_ltz": "timestamp",
    "dec": "decimal",
    "numeric": "decimal",
}
MAX_DECIMAL_PRECISION = 38
MAX_NESTING = 100
MAX_TYPE_CHARACTERS = 32 << 10
"""Longest text of one column's type."""
_SHOWN_CHARS = 300
_TOKEN = re.compile(
    r"""
    [ \t\r\n]*
    (?: ( (?: [A-Za-z0-9_] | [^\x00-\x7f] )+
        | ` (?: [^`] | `` )*+ `
        | ' (?: [^'\\] | \\. | '' )*+ '
        | " (?: [^"\\] | \\. | "" )*+ "
        )
    | ([`'"]) .*  # nowhere closed: whoever looked again behind it would read all that follows for each such sign
    | ([^ \t\r\n])
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_END = ""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTE = "put names with other signs than letters, digits and _ into backquotes: `unit price` double"
_TYPES = f"there are {', '.join(sorted(ATOMIC))}, decimal(p,s), array<..>, map<..>, struct<..>"
_ESCAPED = re.compile(
    r"""\\(?: u(?P<short>[0-9A-Fa-f]{4}) | U(?P<long>[0-9A-Fa-f]{8}) | (?P<octal>[01][0-7]{2}) | (?P<sign>.) )
    | (?P<quote>['"])(?P=quote)""",
    re.VERBOSE | re.DOTALL,
)
"""What stands for something else in a string of Spark SQL."""
_ZONE = re.compile(r"(Z|[+-]\d\d:\d\d)$")
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


@dataclass(frozen=True, slots=True)
class Type:
    """A column's type, taken apart. As text it is in its normal form."""

    name: str
    """Name of an atomic type, or decimal, array, map or struct."""
    inner: tuple[Type, ...] = ()
    """Types of what it is made of: an element; a key and a value; fields."""
    fields: tuple[str, ...] = ()
    """Names of a struct's fields."""
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        parts: list[str] = []
        self._write(parts)
        return "".join(parts)

    def _write(self, parts: list[str]) -> None:
        parts.append(self.name)
        if self.name == "decimal":
            parts.append(f"({self.precision},{self.scale})")
        for number, part in enumerate(self.inner):
            parts.append("," if number else "<")
            if self.fields:
                parts.append(f"{_field(self.fields[number])}:")
            part._write(parts)
        if self.inner:
            parts.append(">")


def struct_text(fields: Iterable[tuple[str, str]]) -> str:
    """A struct of fields with these names and types, each in its normal form."""
    return f"struct<{','.join(f'{_field(name)}:{kind}' for name, kind in fields)}>"


def _field(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)


class Declared(NamedTuple):
    """A column as it was declared."""

    name: str
    type: str
    nullable: bool
    comment: str
    default: str | None
    """The text of a value; None: there is none."""


def parse(text: str, *, data: bool = False) -> Type:
    """Raises InvalidArgument for a type that a table cannot have; `data`: that data cannot have either."""
    try:
        if len(text) > MAX_TYPE_CHARACTERS:
            raise _Unreadable(f"it has {len(text)} characters, {MAX_TYPE_CHARACTERS} are possible")
        tokens = _Tokens(text, ATOMIC | {VOID} if data else ATOMIC)
        found = tokens.type(0)
        if not tokens.ended:
            raise _Unreadable(f"{tokens.next} is left over")
    except _Unreadable as wrong:
        raise InvalidArgument(f"type {_shown(text)} is none that a table can have: {wrong}", hint=wrong.hint) from None
    return found


def parse_type(text: str) -> str:
    """The normal form of a type. Raises InvalidArgument for one that a table cannot have."""
    return text if text in ATOMIC else str(parse(text))


def parse_columns(text: str) -> Sequence[Declared]:
    """Columns as in a CREATE TABLE of Spark: `name` type [NOT NULL] [DEFAULT literal] [COMMENT 'text'], with
    commas in between.

    Raises InvalidArgument, naming the column.
    """
    name, found = "", list[Declared]()
    try:
        tokens = _Tokens(text)
        while True:
            name = ""
            name = tokens.name("the name of a column")
            found.append(tokens.column(name))
            if tokens.ended:
                return found
            tokens.expect(",")
    except _Unreadable as wrong:
        what = f"column {name!r}" if name else f"column {len(found) + 1} of {_shown(text)}"
        raise InvalidArgument(f"{what}: {wrong}", hint=wrong.hint) from None


def parse_names(text: str) -> Sequence[str]:
    """Names of columns with commas in between, as `quoted` writes them or plain; of no text none.

    Raises InvalidArgument.
    """
    tokens, found = _Tokens(text), list[str]()
    try:
        while not tokens.ended or found:
            found.append(tokens.name("the name of a column"))
            if tokens.ended:
                break
            tokens.expect(",")
    except _Unreadable as wrong:
        raise InvalidArgument(f"columns {_shown(text)}: {wrong}", hint=wrong.hint) from None
    return found


class _Unreadable(ValueError):
    """What stands where it cannot."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.hint = hint


class _Tokens:
    """What a text is made of, and how far it was read."""

    def __init__(self, text: str, atomic: frozenset[str] = ATOMIC) -> None:
        self._atomic = atomic
        self._tokens: list[str] = [*map("".join, _TOKEN.findall(text)), _END]
        self._at = 0

    @property
    def ended(self) -> bool:
        return self._tokens[self._at] == _END

    @property
    def next(self) -> str:
        """What comes, for people."""
        return repr(self._tokens[self._at]) if self._tokens[self._at] else "the end"

    def take(self, text: str) -> bool:
        """Whether this comes next; then it is taken."""
        found = self._tokens[self._at].upper() == text
        self._at += found
        return found

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise _Unreadable(f"expected {sign!r}, not {self.next}", _QUOTE)

    def name(self, what: str) -> str:
        token = self._tokens[self._at]
        self._at += 1
        if _is_word(token):
            return token
        if len(token) > 1 and token[0] == "`":
            return token[1:-1].replace("``", "`")
        self._at -= 1
        raise _Unreadable(f"expected {what}, not {self.next}", _QUOTE)

    def column(self, name: str) -> Declared:
        """The rest of a column."""
        self.take(":")
        kind = self.type(0)
        nullable = not self.take("NOT")
        if not nullable and not self.take("NULL"):
            raise _Unreadable(f"expected NULL after NOT, not {self.next}")
        default = self._literal(kind) if self.take("DEFAULT") and not self.take("NULL") else None
        comment = self._comment()
        if _is_word(self._tokens[self._at]):
            raise _Unreadable(
                f"after its type NOT NULL, DEFAULT and COMMENT 'text' are possible, in this order, not {self.next}",
                "a primary key is given as primary_key=[...], partition columns as partition_by=[...]",
            )
        return Declared(name, str(kind), nullable, comment, default)

    def _literal(self, kind: Type) -> str:
        """The text of a literal for a column of this type: one in quotes, a number, true or false."""
        typed = any(self.take(word) for word in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"))
        token = self._tokens[self._at]
        if len(token) > 1 and token[0] in "'\"":
            self._at += 1
            text = _unescaped(token)
            return with_zone(text) if typed and kind.name == "timestamp" else text
        sign = "-" if self.take("-") else ""
        word = self._tokens[self._at]
        if typed or not (word[:1].isdecimal() or (not sign and word.lower() in ("true", "false"))):
            raise _Unreadable(f"expected a literal after DEFAULT, not {self.next}", "DEFAULT 5, DEFAULT 'text'")
        self._at += 1
        rest = f".{self._digits()}" if self.take(".") else ""
        return f"{sign}{word}{rest}"

    def _digits(self) -> str:
        word = self._tokens[self._at]
        if not word[:1].isdecimal():
            raise _Unreadable(f"expected digits, not {self.next}")
        self._at += 1
        return word

    def _comment(self) -> str:
        if not self.take("COMMENT"):
            return ""
        token = self._tokens[self._at]
        if len(token) < 2 or token[0] not in "'\"":
            raise _Unreadable(f"expected a comment in quotes, not {self.next}")
        self._at += 1
        return _unescaped(token)

    def type(self, depth: int) -> Type:
        """`depth`: how many types it is in."""
        if depth > MAX_NESTING:
            raise _Unreadable(f"more than {MAX_NESTING} types in each other")
        word = self._tokens[self._at]
        if not _is_word(word):
            raise _Unreadable(f"expected a type, not {self.next}", _QUOTE)
        self._at += 1
        name = _SYNONYMS.get(word.lower(), word.lower())
        if name in self._atomic:
            return Type(name)
        match name:
            case "decimal":
                return self._decimal()
            case "array" | "map":
                self.expect("<")
                inner = [self.type(depth + 1)]
                if name == "map":
                    self.expect(",")
                    inner.append(self.type(depth + 1))
                self.expect(">")
                return Type(name, tuple(inner))
            case "struct":
                return self._struct(depth)
        raise _Unreadable(f"there is no type {word!r}", _TYPES)

    def _decimal(self) -> Type:
        if not self.take("("):
            return Type("decimal", precision=10)
        precision, scale = self._number(), self._number() if self.take(",") else 0
        self.expect(")")
        if not 1 <= precision <= MAX_DECIMAL_PRECISION or scale > precision:
            raise _Unreadable(
                f"decimal({precision},{scale}): the first is 1 to {MAX_DECIMAL_PRECISION}, and the second not above it"
            )
        return Type("decimal", precision=precision, scale=scale)

    def _number(self) -> int:
        word = self._tokens[self._at]
        if not (word.isascii() and word.isdecimal() and len(word) <= len(str(MAX_DECIMAL_PRECISION))):
            raise _Unreadable(f"expected a number up to {MAX_DECIMAL_PRECISION}, not {self.next}")
        self._at += 1
        return int(word)

    def _struct(self, depth: int) -> Type:
        self.expect("<")
        fields: list[str] = []
        inner: list[Type] = []
        seen: set[str] = set()
        while True:
            name = self.name("the name of a field")
            try:
                check_column_name(name)
            except InvalidArgument as error:
                raise _Unreadable(error.message) from None
            if fold(name) in seen:
                raise _Unreadable(f"field {name!r} appears twice (case does not count)")
            seen.add(fold(name))
            self.take(":")
            fields.append(name)
            inner.append(self.type(depth + 1))
            if self.take("NOT"):
                raise _Unreadable(f"field {name!r}: NOT NULL holds for columns, not inside them")
            self._comment()
            if self.take(">"):
                return Type("struct", tuple(inner), tuple(fields))
            self.expect(",")


def _unescaped(token: str) -> str:
    """What a string in quotes says. Raises _Unreadable."""

    def meant(match: re.Match[str]) -> str:
        if match["sign"]:
            return _ESCAPES.get(match["sign"], match["sign"])
        if match["quote"]:
            # The other sign is no end of the string: it stands for itself.
            return match["quote"] if match["quote"] == token[0] else match[0]
        code = int(match["octal"], 8) if match["octal"] else int(match["short"] or match["long"], 16)
        if code > sys.maxunicode or 0xD800 <= code < 0xE000:
            raise _Unreadable(f"{match[0]} in a comment is no character")
        return chr(code)

    return _ESCAPED.sub(meant, token[1:-1])


def with_zone(text: str) -> str:
    """A time that names no zone is in UTC."""
    return text if _ZONE.search(text) else f"{text}+00:00"


def _is_word(token: str) -> bool:
    return token[:1].isalnum() or token[:1] == "_" or token[:1] > "\x7f"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}...")

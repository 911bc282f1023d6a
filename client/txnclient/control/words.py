"""A statement as the words that an engine's lexer has found, without spaces and comments, read one after the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from txnstatus.errors import InvalidArgument

_NAME = re.compile(r"\w+")
_LITERAL = re.compile(r"""[rR]?('.*'|".*")|\d[\w.]*""", re.DOTALL)
_PLAIN = re.compile(r"[\w .,:/=-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Session:
    """What names mean in a session."""

    catalogs: Sequence[str]
    """The names of the catalogs that have procedures."""
    catalog: str
    """The current catalog."""
    namespace: Sequence[str]
    """The current database, in parts."""

    def any(self) -> str:
        """The catalog for a statement that names none. Raises InvalidArgument where several are possible."""
        if self.catalog in self.catalogs:
            return self.catalog
        if len(self.catalogs) != 1:
            raise InvalidArgument(
                f"which of the catalogs {', '.join(sorted(self.catalogs))} is meant?",
                hint="USE one of them, or CALL its procedure: CALL txn.system.begin()",
            )
        return self.catalogs[0]

    def table(self, parts: Sequence[str]) -> tuple[str, str] | None:
        """The catalog, and the table's name in it; None: it is in no such catalog."""
        if len(parts) == 3 and parts[0] in self.catalogs:
            return parts[0], ".".join(parts[1:])
        full = [*self.namespace, *parts] if len(parts) == 1 else parts
        return (self.catalog, ".".join(full)) if self.catalog in self.catalogs and len(full) == 2 else None


@dataclass(slots=True)
class Words:
    """All `require` and `read` methods raise InvalidArgument, which says what would be right."""

    text: str
    words: Sequence[str]
    ends: Sequence[int]
    """Offsets in the text after each word, in characters."""
    session: Session
    usage: str = field(default="", init=False)
    """What the statement that is read looks like."""
    _at: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        while self.words and self.words[-1] == ";":
            self.words = self.words[:-1]

    def restart(self, usage: str) -> None:
        self.usage, self._at = usage, 0

    # ---- words

    def skip(self, *words: str) -> bool:
        """Whether these come next; then they are read."""
        found = [each.upper() for each in self.words[self._at : self._at + len(words)]]
        if found != list(words):
            return False
        self._at += len(words)
        return True

    def skip_any(self, *words: str) -> bool:
        """Whether one of these comes next; then it is read."""
        return any(self.skip(each) for each in words)

    def require(self, *words: str) -> None:
        if not self.skip(*words):
            self._refuse()

    @property
    def ended(self) -> bool:
        return self._at >= len(self.words)

    def require_end(self) -> None:
        if not self.ended:
            self._refuse()

    # ---- what is written as SQL again

    def read_name(self) -> str:
        """An identifier, as it is meant."""
        word = self._next()
        if word[0] == "`" and len(word) > 2:
            return word[1:-1].replace("``", "`")
        if not _NAME.fullmatch(word):
            self._refuse(-1)
        return word

    def read_names(self) -> list[str]:
        """An identifier of several parts."""
        found = [self.read_name()]
        while self.skip("."):
            found.append(self.read_name())
        return found

    def read_value(self) -> str:
        """A literal, or the marker of a parameter, as it stands in the text."""
        if self.skip(":"):
            return f":{self.read_name()}"
        if self.skip("-"):
            return f"-{self.read_value()}"
        word = self._next()
        if word != "?" and not _LITERAL.fullmatch(word):
            self._refuse(-1)
        return word

    def read_text(self) -> str:
        """A literal, or the marker of a parameter, as it stands in the text; or an identifier, as a literal."""
        word = self.words[self._at] if not self.ended else ""
        is_name = word[:1] == "`" or (_NAME.fullmatch(word) and not word[0].isdigit())
        return literal(self.read_name()) if is_name else self.read_value()

    def read_table(self) -> tuple[str, str]:
        """The catalog, and the table's name in it."""
        parts = self.read_names()
        if (found := self.session.table(parts)) is None:
            catalogs = ", ".join(sorted(self.session.catalogs))
            raise InvalidArgument(f"{'.'.join(parts)!r:.200} is no table of {catalogs}: expected {self.usage}")
        return found

    def read_database(self) -> tuple[str, str]:
        """The catalog, and the database's name in it."""
        parts = self.read_names()
        catalog = parts[0] if len(parts) == 2 else self.session.catalog
        if len(parts) > 2 or catalog not in self.session.catalogs:
            catalogs = ", ".join(sorted(self.session.catalogs))
            raise InvalidArgument(f"{'.'.join(parts)!r:.200} is no database of {catalogs}: expected {self.usage}")
        return catalog, parts[-1]

    def read_partition(self) -> str:
        """PARTITION (month = 1, day = 'a'), if it comes next, as a map."""
        if not self.skip("PARTITION"):
            return "NULL"
        self.require("(")
        parts = list[str]()
        while not parts or self.skip(","):
            column = self.read_name()
            self.require("=")
            parts.append(f"{literal(column)}, CAST({self.read_value()} AS STRING)")
        self.require(")")
        return f"map({', '.join(parts)})"

    def read_script(self) -> str:
        """All up to an END, which is the last word, as a block of Spark's, with each word where it is in the text."""
        begin, last = self.ends[self._at - 1], len(self.words) - 1
        if self.words[last].upper() != "END" or last < self._at:
            self._at = len(self.words)
            self._refuse()
        end = "" if last == self._at or self.words[last - 1] == ";" else ";"
        self._at = len(self.words)
        before = re.sub(r"\S", " ", self.text[: begin - len("BEGIN")])
        return f"{before}BEGIN{self.text[begin : self.ends[last - 1]]}{end} END"

    def _next(self) -> str:
        if self.ended:
            self._refuse()
        self._at += 1
        return self.words[self._at - 1]

    def _refuse(self, step: int = 0) -> None:
        at = self._at + step
        found = f"at {self.words[at]!r:.100}" if at < len(self.words) else "at its end"
        raise InvalidArgument(f"{' '.join(self.words)[:200]!r} is wrong {found}: expected {self.usage}")


def literal(text: str) -> str:
    """A text as SQL, whatever is in it, and however the session reads backslashes."""
    return f"'{text}'" if _PLAIN.fullmatch(text) else f"CAST(X'{text.encode().hex()}' AS STRING)"

"""Scripts: where their statements begin and end, and the words of each, as control statements are read from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import SqlglotError

from txnclient.control.words import Session, Words
from txnstatus.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Piece:
    """One statement of a script."""

    text: str
    words: Sequence[str]
    ends: Sequence[int]
    """Offsets in the text after each word, in characters."""

    def read_in(self, session: Session) -> Words:
        return Words(self.text, self.words, self.ends, session)

    def begins(self, *words: str) -> bool:
        """Whether these are its first words."""
        return [each.upper() for each in self.words[: len(words)]] == list(words)


def is_whole(script: str) -> bool:
    """Whether its last statement has its `;`, so that somebody who types is done."""
    try:
        tokens = _tokens(script)
    except SqlglotError:
        return False  # a quote or a comment that goes on
    return not tokens or (tokens[-1].text == ";" and not list(_parted(tokens))[-1])


class _Lexer(Databricks.Tokenizer):
    """As sqlglot's own, which takes what follows SHOW and its like for one word."""

    COMMANDS: ClassVar[set[Any]] = set()


def pieces(script: str) -> list[Piece]:
    """The statements of a script, with `;` between them; what `BEGIN ATOMIC` begins is one, up to its END.

    Raises InvalidArgument for a script that is no text, and for a quote or a comment that does not end.
    """
    if not isinstance(script, str):
        raise InvalidArgument(f"SQL is text, not {type(script).__name__}")
    try:
        tokens = _tokens(script)
    except SqlglotError as error:
        raise InvalidArgument(f"{script[:200]!r} does not read as SQL: {error}") from None
    return [_piece(script, each) for each in _parted(tokens) if each]


def _tokens(script: str) -> list[Any]:
    return list(_Lexer(dialect="databricks").tokenize(script))


def _parted(tokens: Sequence[Any]) -> Iterator[list[Any]]:
    found = list[Any]()
    blocks = 0
    for before, token in zip([None, *tokens], tokens, strict=False):
        is_name = token.token_type.name in ("STRING", "IDENTIFIER") or (before is not None and before.text == ".")
        word = "" if is_name else token.text.upper()
        if word == ";" and not blocks:
            yield found
            found = []
            continue
        found.append(token)
        if word == "CASE" and blocks:
            blocks += 1
        elif word == "END" and blocks:
            blocks -= 1
        elif word == "ATOMIC" and len(found) == 2 and found[0].text.upper() == "BEGIN":
            blocks = 1
    yield found


def _piece(script: str, tokens: Sequence[Any]) -> Piece:
    start, end = tokens[0].start, tokens[-1].end + 1
    words = [script[token.start : token.end + 1] for token in tokens]
    return Piece(script[start:end], words, [token.end + 1 - start for token in tokens])

"""Text that somebody wrote, where people read it: it neither colours nor moves what is around it."""

from __future__ import annotations


def plain(text: str) -> str:
    """The text with what cannot be printed spelt out, line breaks among it."""
    return text if text.isprintable() else "".join(each if each.isprintable() else _spelt(each) for each in text)


def _spelt(character: str) -> str:
    return character.encode("unicode_escape").decode()

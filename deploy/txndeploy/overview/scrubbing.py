"""Text without secrets, for whoever is not trusted with them: what looks like one is left out, and that is said. Pure.

It errs on the side of leaving out. What is in a file by a name that says so, such as a key, is not to be read at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

LEFT_OUT = "(left out)"
_NAMES = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?|dsn"
    r"|auth(?:orization)?"
)
_KEY = re.compile(rf"(?i)(?:^|[_.-])(?:{_NAMES})s?(?:$|[_.-])")
_PATTERNS = (
    # PEM, also where its lines were joined, or its end was cut off; and where its beginning was.
    (re.compile(r"-----BEGIN [A-Z ]*-----[^\"']*?(?:-----END [A-Z ]*-----|(?=[\"'])|\Z)"), LEFT_OUT),
    (re.compile(r"\A(?:(?!-----BEGIN)[^\"'])*?-----END [A-Z ]*-----"), LEFT_OUT),
    # A JSON web token.
    (re.compile(r"\beyJ[\w-]{5,}\.[\w-]+\.[\w-]*"), LEFT_OUT),
    (re.compile(r"(?i)\b(bearer|basic) +[\w.~+/=-]{8,}"), rf"\1 {LEFT_OUT}"),
    (re.compile(r"(?i)\b((?:proxy-)?authorization *: *\w+) +[^\s\"'\\]+"), rf"\1 {LEFT_OUT}"),
    # Who may, in a URI; and what may be anything, behind its question mark.
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,30}://)[^\s/'\"]+@"), rf"\1{LEFT_OUT}@"),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,30}://[^\s?'\"]+)\?[^\s'\"]+"), rf"\1?{LEFT_OUT}"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b"), LEFT_OUT),
    # Tokens of GitHub and of Slack.
    (re.compile(r"\b(?:gh[a-z]_|github_pat_|xox[a-z]-)[\w-]{10,}"), LEFT_OUT),
    # `password=...`, `"secret": "..."`, and the latter within JSON; the quotes stay. Each word is looked through once.
    (
        re.compile(
            rf"""(?i)(?<![\w.-])((?=[\w.-]*?(?:{_NAMES}))[\w.-]+(?:\\?["'])?\s*[=:]\s*)"""
            r"""(?:(\\?["'])(?:(?!\2|(?<!\\)").)*\2|[^\s,;}\])"'\\]+)"""
        ),
        rf"\1\2{LEFT_OUT}\2",
    ),
)


def scrub(text: str) -> str:
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def scrub_settings(value: Any, key: str = "") -> Any:
    """Likewise, of a configuration: of what has a telling name nothing is left."""
    if isinstance(value, Mapping):
        return {name: scrub_settings(each, name) for name, each in value.items()}
    if _KEY.search(key):
        return LEFT_OUT
    if isinstance(value, list):
        return [scrub_settings(each) for each in value]
    return scrub(value) if isinstance(value, str) else value

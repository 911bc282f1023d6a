"""What an examination found, what was mended of it, and what could not be looked at."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from rich.table import Table
from rich.text import Text

from txndeploy.terminal.output import lines
from txnstatus.findings import Finding, Severity

HEALTHY, FOUND, NOT_SEEN = 0, 1, 2

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


@dataclass(frozen=True, slots=True)
class Mending:
    """What becomes of one finding."""

    done: bool
    """Whether it was mended; else it only could be."""
    refusal: str = ""
    """Why it was not; empty: it was, or could be."""

    def __str__(self) -> str:
        if self.refusal:
            return f"not mended: {self.refusal}"
        return (
            "mended: the table's cleaner removes it" if self.done else "--fix would have the table's cleaner remove it"
        )


@dataclass(slots=True)
class Report:
    findings: list[Finding] = field(default_factory=list)
    mendings: dict[Finding, Mending] = field(default_factory=dict)
    not_seen: list[str] = field(default_factory=list)
    """What could not be looked at, and why."""
    seen: list[str] = field(default_factory=list)
    """How much was looked at."""

    @property
    def exit_code(self) -> int:
        if self.not_seen:
            return NOT_SEEN
        left = [
            found for found in self.findings if found.kind.severity is not Severity.NOTE and not self._mended(found)
        ]
        return FOUND if left else HEALTHY

    def _mended(self, found: Finding) -> bool:
        mending = self.mendings.get(found)
        return mending is not None and mending.done and not mending.refusal

    def to_json(self) -> str:
        return json.dumps(
            {
                "exit_code": self.exit_code,
                "findings": [
                    {
                        "kind": found.kind.label,
                        "severity": found.kind.severity.value,
                        "where": found.where,
                        "what": found.what,
                        "story": found.story,
                        "advice": found.kind.advice,
                        "mended": self._mended(found),
                        "mending": str(self.mendings[found]) if found in self.mendings else "",
                    }
                    for found in self.findings
                ],
                "not_seen": self.not_seen,
                "seen": self.seen,
            },
            indent=2,
        )

    def table(self) -> Table:
        table = Table(title="findings", title_justify="left")
        for heading in ("severity", "finding", "where", "what", "what to do"):
            table.add_column(heading, overflow="fold")
        for found in sorted(self.findings, key=lambda each: list(Severity).index(each.kind.severity)):
            kind = found.kind
            what = "\n".join(filter(None, (found.what, found.story)))
            do = str(self.mendings[found]) if found in self.mendings else kind.advice
            severity = Text(str(kind.severity), _COLOURS[kind.severity])
            table.add_row(severity, *(Text(lines(each)) for each in (kind.label, found.where, what, do)))
        return table

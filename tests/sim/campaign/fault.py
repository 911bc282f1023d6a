"""A fault: what happens to one of the nodes, or of the programs, and when."""

from __future__ import annotations

from dataclasses import dataclass

NODES = ("n1", "n2", "n3")


@dataclass(frozen=True, slots=True)
class Fault:
    at: float
    """True seconds from the start."""
    kind: str
    target: str
    other: str = ""
    seconds: float = 0.0
    """How long it lasts; for a death, until the restart."""
    amount: float = 0.0

    def __str__(self) -> str:
        parts = [f"{self.at:8.3f} {self.kind} {self.target}", self.other]
        parts += [f"for {self.seconds:.2f} s" if self.seconds else "", f"({self.amount:g})" if self.amount else ""]
        return " ".join(part for part in parts if part)

"""Marking: a transaction says how far a source has been taken, and that commits with what was taken."""

from __future__ import annotations

from txnclient.handle import Handle
from txnclient.streams import marks
from txnclient.streams.marks import Mark, Position
from txnclient.transaction.ending import Ending
from txnclient.write.rows import RowWrites


class Marking:
    """What a `Transaction` does with marks."""

    handle: Handle
    _ending: Ending
    _rows: RowWrites

    def mark(self, source: str, position: Position, *, expected: Position | None) -> None:
        """Moves the mark of a source: how far it has been taken, `{"0": 17, "1": 22}`. It commits with all else.

        For consumers that read where to go on from the mark, `client.mark(source)`: what they write is written once,
        however often they die, and however long ago that was. `position`: what JSON can say, up to 64 KiB of it.
        `expected`: the position from which this was taken; None: nobody has taken from the source. It is compared as of
        the transaction's `snapshot`, with what it has marked itself; of two that move a mark at once the first to
        commit wins, and the other is told Conflict.

        Raises IllegalState where the source is elsewhere; InvalidArgument. Then the transaction can only be aborted:
        what it has taken was taken already.
        """
        with self._ending.writing(f"the mark of source {source!r:.100}"):
            marks.require(marks.check_source(source), self.marked(source), expected)
            self.move_mark(source, position)

    def move_mark(self, source: str, position: Position) -> None:
        """As `mark`, of whoever has looked at it in this transaction and may move it."""
        with self._ending.writing(f"the mark of source {source!r:.100}"):
            marks.write(self.handle, self._rows, source, position)

    def marked(self, source: str) -> Mark | None:
        """The mark of the source as this transaction sees it; None: nobody has taken from it."""
        return marks.find(self.handle.snapshot, marks.check_source(source))

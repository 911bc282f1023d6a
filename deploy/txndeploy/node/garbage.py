"""How a node's process looks for cyclic garbage: often, and among few."""

from __future__ import annotations

import gc

YOUNG = 10_000
"""Objects that have come and not gone, before they are looked at, in a millisecond or two; the third time, all three
lots are.

More than what a hundred transactions under way hold: else each wave of them is looked through, and finds nothing."""
FULL_EVERY = 6_600
"""Third times between two looks at all there is, a second for some millions: two hundred million new objects."""


def tune() -> None:
    """What a node keeps are records that live long, in no cycles: what outlives two looks is hardly looked at again.

    The default looks through all of them again and again. Rarer looks would find more young ones each time, and the
    loop stands still meanwhile.
    """
    gc.set_threshold(YOUNG, 1, FULL_EVERY)

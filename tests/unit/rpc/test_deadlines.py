"""The deadline of a call, and what is done for its caller."""

from __future__ import annotations

import asyncio

from txnstatus.process.background import Tasks
from txnstatus.rpc.deadlines import ANSWER_SHARE, answer_by, answering_by, time_left

AT_MOST = 10.0


def test_what_is_done_for_a_caller_ends_before_the_caller_gives_up_and_the_shortest_time_counts() -> None:
    async def main() -> None:
        assert time_left(AT_MOST) == AT_MOST
        with answering_by(answer_by(4.0)):
            assert 3.0 < time_left(AT_MOST) <= 4.0 * ANSWER_SHARE
            assert time_left(1.0) == 1.0
            with answering_by(answer_by(2.0)):
                assert time_left(AT_MOST) <= 2.0 * ANSWER_SHARE
            with answering_by(answer_by(60.0)):
                assert time_left(AT_MOST) <= 4.0 * ANSWER_SHARE
        with answering_by(answer_by(0.0)):
            assert time_left(AT_MOST) == 0.0
        assert time_left(AT_MOST) == AT_MOST

    asyncio.run(main())


def test_what_a_call_leaves_to_the_background_has_no_deadline() -> None:
    async def main() -> None:
        left: list[float] = []

        async def work() -> None:
            left.append(time_left(AT_MOST))

        with answering_by(answer_by(0.001)):
            await Tasks("it failed").spawn(work())
        assert left == [AT_MOST]

    asyncio.run(main())

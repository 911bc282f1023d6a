"""Where the subtle faults come to light, as of the last campaign: a seed of the simulator, or else a unit test.

A change of the service changes what a seed does. Where it does not find its fault any more, look for another:
.venv/bin/python -m tests.sim.look NAME
"""

from __future__ import annotations

from collections.abc import Mapping

KNOWN: Mapping[str, int] = {
    "prepared keys are not restored": 5,
    "who follows is not restored": 0,
    "what is to be cleaned is not restored": 0,
    "the last row change is not restored": 5,
    "who drops is not restored": 135,
    "directories are counted once": 5,
    "replaced at its timestamp is seen": 31,
    "a part is not in the way of the whole": 31,
    "a flush begins above its first commit": 5,
    "nobody is let in": 105,
    "a task goes on in the next phase": 0,
    "an outcome at the snapshot's timestamp is above": 5,
    "commit timestamps do not rise": 9,
    "requests are not counted when restored": 0,
    "the finished come back in the order of their ids": 0,
    "the unfinished are forgotten, too": 0,
    "only the last range is asked for a snapshot": 1,
    "members not committed are in the snapshot": 0,
    "votes leave before their sync": 0,
    "acknowledgements leave before their sync": 0,
    "a lease from when answers arrive": 48,
    "ready before its own entry": 0,
    "a host agrees to anything": 112,
    "a lease outlives a hand-over": 1,
    "whoever ends takes others' prepared keys": 0,
    "two hold shared write": 0,
    "a range is dropped with what is kept": 1,
    "a repeated begin makes more": 0,
    "votes while a leader is near": 25,
    "a beat revives who expires": 19,
}

BY_UNIT_TESTS: Mapping[str, tuple[str, str]] = {
    "prepared overwrites are not restored": (
        "shard/test_adoption.py",
        "test_in_no_order_of_commands_is_anything_removed_that_is_in_use_or_comes_to_be",
    ),
    "table numbers are used again": ("shard/test_restoring.py", "test_a_table_number_is_never_given_twice"),
    "an aborted part stays in the way": (
        "versions/test_overwrites.py",
        "test_an_aborted_overwrite_is_in_nobodys_way",
    ),
    "claims outlive an abort": ("shard/test_shard.py", "test_a_winner_that_aborts_after_all_frees_what_it_held"),
    "a superseded write comes back": (
        "shard/test_shard.py",
        "test_a_late_repetition_of_files_that_were_overwritten_does_not_bring_them_back",
    ),
    "keys that are gone are not missed": (
        "leader/test_row_writes.py",
        "test_a_transaction_older_than_the_keys_that_are_kept_is_to_run_again",
    ),
    "others prepare beside a drop": (
        "shard/test_dropping.py",
        "test_in_every_order_a_commit_is_before_the_drop_or_refused",
    ),
    "a dropped table is read at its drop": ("shard/test_dropping.py", "test_each_reader_finds_the_table_of_its_time"),
    "locks go with the prepare": (
        "shard/test_locks.py",
        "test_the_entry_that_commits_frees_the_locks_and_lets_the_next_in",
    ),
    "the queue is restored backwards": (
        "shard/test_locks.py",
        "test_a_snapshot_keeps_locks_and_the_order_of_the_queue",
    ),
    "retirement by the wall clock": ("upkeep/test_retirement.py", "test_a_wall_clock_that_jumps_makes_nothing_old"),
    "a new leader waits for no lease": (
        "upkeep/test_retirement.py",
        "test_a_new_leader_waits_until_every_lease_has_been_renewed",
    ),
    "the newest lease counts": ("upkeep/test_retirement.py", "test_a_lease_keeps_what_its_snapshot_sees"),
    "a lease is not prolonged": (
        "upkeep/test_retirement.py",
        "test_a_lease_that_is_not_renewed_ends_and_one_that_is_does_not",
    ),
    "retirement is not announced": (
        "upkeep/test_retirement.py",
        "test_no_lease_is_given_below_what_is_gone_or_about_to_go",
    ),
}
"""What no seed was found for yet, and the test that fails with it."""

UNSEEN: tuple[str, ...] = (
    "prepared rows are not in an overwrite's way",
    "only the last clearing counts",
    "the old take part in the new table",
    "a drop is at its own clock's time",
    "a new table reaches below the drop",
    "an acknowledged drop is not settled",
    "a dropped table is forgotten while it is read",
    "what an earlier leadership asked is believed",
    "a prepare passes the gate",
    "a leader knows what it knew before",
    "a cleaner never looks at all again",
    "forgotten with its directories",
    "answers of two phases are mixed",
    "decided for those who were asked",
    "a refused decision is not taken again",
    "a proposal that failed stays proposed",
    "a silent participant is asked once",
    "a leader's pause counts against clients",
    "a failed expiry is never proposed again",
    "a new range begins without a floor",
    "floors are not raised",
    "a full last range gives snapshots",
    "a dropped range lowers the floor",
    "an older catalog is taken",
    "outcomes are read without a lease",
    "cut members stay",
    "an installed snapshot says nothing of members",
    "two changes of members at once",
    "one that is alone does not wait for its sync",
    "answers of another term count",
    "what is cut off comes back from the disk",
    "whoever is in the suffix stays",
    "caught up with the first word",
    "who takes a place is no replica yet",
    "in doubt is discarded",
    "nobody asks about what is in doubt",
    "a host's failure counts as done",
)
"""Faults for which neither is known now: too few seeds were looked at, or another layer makes them harmless."""

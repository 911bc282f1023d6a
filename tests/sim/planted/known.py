"""Where the subtle faults come to light, as of the last campaign: a seed of the simulator, a unit test, or both.

A change of the service changes what a seed does. Where it does not find its fault any more, look for another:
.venv/bin/python -m tests.sim.look NAME
"""

from __future__ import annotations

from collections.abc import Mapping

KNOWN: Mapping[str, int] = {
    "prepared keys are not restored": 6,
    "what is to be cleaned is not restored": 0,
    "the last row change is not restored": 5,
    "who drops is not restored": 4,
    "directories are counted once": 5,
    "replaced at its timestamp is seen": 31,
    "a part is not in the way of the whole": 31,
    "nobody is let in": 105,
    "a task goes on in the next phase": 0,
    "requests are not counted when restored": 0,
    "the finished come back in the order of their ids": 0,
    "the unfinished are forgotten, too": 0,
    "members not committed are in the snapshot": 0,
    "votes leave before their sync": 0,
    "acknowledgements leave before their sync": 0,
    "ready before its own entry": 0,
    "a host agrees to anything": 112,
    "a lease outlives a hand-over": 3,
    "whoever ends takes others' prepared keys": 0,
    "two hold shared write": 8,
    "votes while a leader is near": 3,
    "floors are not raised": 29,
    "in doubt is discarded": 39,
    "an acknowledged drop is not settled": 96,
    "what is cut off comes back from the disk": 0,
    "a failed expiry is never proposed again": 72,
    "a silent participant is asked once": 4,
    "a proposal that failed stays proposed": 100,
    "locks go with the prepare": 0,
    "who follows is not restored": 1,
    "commit timestamps do not rise": 0,
    "claims outlive an abort": 1,
    "prepared overwrites are not restored": 42,
    "the newest lease counts": 5,
    "retirement by the wall clock": 3,
    "a lease is not prolonged": 21,
    "a cleaner never looks at all again": 11,
    "a leader knows what it knew before": 10,
    "a superseded write comes back": 10,
    "a range is dropped with what is kept": 17,
    "only the last range is asked for a snapshot": 17,
    "a beat revives who expires": 83,
    "a dropped table is read at its drop": 31,
    "a repeated begin makes more": 0,
    "forgotten with its directories": 4,
    "a flush begins above its first commit": 32,
    "an outcome at the snapshot's timestamp is above": 6,
    "a dropped table is forgotten while it is read": 11,
    "the queue is restored backwards": 8,
    "only the last clearing counts": 14,
    "a new range begins without a floor": 17,
    "one that is alone does not wait for its sync": 19,
    "whoever is in the suffix stays": 49,
    "caught up with the first word": 32,
    "whose place is taken is asked no more": 23,
    "a prepare passes the gate": 10,
    "answers of two phases are mixed": 5,
    "nobody asks about what is in doubt": 7,
    "others prepare beside a drop": 0,
    "what an earlier leadership asked is believed": 124,
    "an installed snapshot says nothing of members": 23,
    "a command comes below its level": 20_001,
    "a field comes below its level": 20_001,
    "the level is raised whoever is there": 20_001,
}

BY_UNIT_TESTS: Mapping[str, tuple[str, str]] = {
    "the gate is forgotten": ("words/test_features.py", "test_what_a_level_brought_is_proposed_from_it_on"),
    "names are parted": (
        "shard/test_dividing.py",
        "test_tables_that_had_a_name_in_common_stay_together",
    ),
    "what went is nobody's": (
        "shard/test_dividing.py",
        "test_a_table_goes_with_its_id_and_the_shard_that_it_left_says_where_it_is",
    ),
    "what is split off holds nothing": (
        "manager/test_split_off.py",
        "test_a_savepoint_is_held_by_what_was_split_off_while_it_was_made",
    ),
    "what comes is here for all": (
        "status/test_migrated.py",
        "test_one_that_comes_is_elsewhere_for_all_that_have_begun_before",
    ),
    "who has gone is asked by nobody": (
        "status/test_manager.py",
        "test_a_participant_that_goes_to_another_log_is_asked_there",
    ),
    "a chunk may be missing": ("raft/test_migration.py", "test_a_leader_that_goes_on_begins_anew"),
    "an old catalog ends a migration": (
        "catalog/test_migrations.py",
        "test_what_an_old_state_says_does_not_end_a_migration",
    ),
    "prepared overwrites are not restored": (
        "versions/test_overwrites.py",
        "test_overwrites_conflict_where_they_meet_also_where_there_is_nothing",
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
        "test_nobody_begins_or_writes_or_prepares_on_a_dropped_table",
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
    "prepared rows are not in an overwrite's way": (
        "leader/test_row_writes.py",
        "test_an_overwrite_and_rows_that_were_changed_under_it_conflict",
    ),
    "only the last clearing counts": (
        "rows/test_cleared.py",
        "test_each_reader_sees_what_was_changed_since_the_last_overwrite_below",
    ),
    "the old take part in the new table": (
        "shard/test_dropping.py",
        "test_whoever_began_before_the_drop_stays_out_of_the_new_table",
    ),
    "a drop is at its own clock's time": (
        "shard/test_dropping.py",
        "test_the_drop_is_above_all_that_was_committed_whichever_clock_is_behind",
    ),
    "a new table reaches below the drop": (
        "shard/test_dropping.py",
        "test_in_every_order_a_commit_is_before_the_drop_or_refused",
    ),
    "an acknowledged drop is not settled": (
        "shard/test_dropping.py",
        "test_whoever_comes_after_an_acknowledged_drop_sees_it",
    ),
    "a dropped table is forgotten while it is read": (
        "shard/test_dropping.py",
        "test_a_dropped_table_that_was_always_empty_is_there_for_readers_below",
    ),
    "what an earlier leadership asked is believed": (
        "leader/test_scenarios.py",
        "test_a_story_of_registering[withdrawn]",
    ),
    "a prepare passes the gate": ("leader/test_scenarios.py", "test_a_story_of_registering[first_write]"),
    "a leader knows what it knew before": ("leader/test_scenarios.py", "test_a_story_of_registering[leftovers]"),
    "a cleaner never looks at all again": ("upkeep/test_cleaner.py", "test_a_new_leadership_goes_over_all_of_it_anew"),
    "forgotten with its directories": (
        "shard/test_forgetting.py",
        "test_what_has_not_ended_or_holds_directories_stays",
    ),
    "answers of two phases are mixed": ("status/test_scenarios.py", "test_a_story_of_the_status_leader[commit]"),
    "decided for those who were asked": (
        "status/test_scenarios.py",
        "test_a_story_of_the_status_leader[early_prepare]",
    ),
    "a refused decision is not taken again": (
        "status/test_scenarios.py",
        "test_a_story_of_the_status_leader[early_prepare]",
    ),
    "a proposal that failed stays proposed": ("status/test_scenarios.py", "test_a_story_of_the_status_leader[commit]"),
    "a silent participant is asked once": ("status/test_manager.py", "test_no_error_counts_as_done_after_the_decision"),
    "a leader's pause counts against clients": (
        "status/test_scenarios.py",
        "test_a_story_of_the_status_leader[expiry]",
    ),
    "a failed expiry is never proposed again": (
        "status/test_scenarios.py",
        "test_a_story_of_the_status_leader[expiry]",
    ),
    "a new range begins without a floor": (
        "status/test_ranges.py",
        "test_a_client_that_missed_a_whole_life_of_ranges_begins_in_the_last_with_its_floor",
    ),
    "floors are not raised": (
        "status/test_ranges.py",
        "test_a_snapshot_is_not_below_a_commit_of_any_range_and_below_all_to_come",
    ),
    "a full last range gives snapshots": (
        "status/test_ranges.py",
        "test_a_snapshot_is_not_below_a_commit_of_any_range_and_below_all_to_come",
    ),
    "a dropped range lowers the floor": (
        "catalog/test_catalog.py",
        "test_a_dropped_range_leaves_its_last_commit_and_its_number",
    ),
    "an older catalog is taken": (
        "catalog/test_cluster_map.py",
        "test_a_newer_state_is_taken_and_told_and_an_older_one_is_not",
    ),
    "outcomes are read without a lease": (
        "status/test_kudu_faults.py",
        "test_kudu_fault_11_a_deposed_leader_answers_nothing_from_memory",
    ),
    "cut members stay": ("raft/test_members.py", "test_a_change_that_was_not_committed_is_taken_back"),
    "an installed snapshot says nothing of members": (
        "raft/test_journal.py",
        "test_the_members_are_those_of_the_snapshot_whatever_the_journal_said_before",
    ),
    "two changes of members at once": ("raft/test_members.py", "test_one_change_at_a_time"),
    "who is to go is taken for gone": (
        "deploy/test_replicas.py",
        "test_who_was_to_go_has_gone_once_that_is_committed",
    ),
    "one that is alone does not wait for its sync": ("raft/test_journal.py", "test_it_knows_up_to_where_it_is_synced"),
    "a lease from when answers arrive": (
        "raft/test_elections.py",
        "test_a_lease_is_what_most_members_have_answered",
    ),
    "who hands over goes on proposing": (
        "raft/test_elections.py",
        "test_a_leader_that_hands_over_proposes_nothing_more",
    ),
    "whoever once led names a successor": (
        "raft/test_elections.py",
        "test_a_former_leader_names_no_successor",
    ),
    "answers of another term count": (
        "raft/test_group.py",
        "test_r13_an_acknowledgement_of_another_term_counts_for_nothing",
    ),
    "what is cut off comes back from the disk": (
        "raft/test_journal.py",
        "test_a_conflict_is_durable_only_with_the_entries_that_caused_it",
    ),
    "whoever is in the suffix stays": ("raft/test_journal.py", "test_a_real_conflict_drops_the_rest_for_good"),
    "caught up with the first word": (
        "raft/test_members.py",
        "test_a_member_that_lost_its_directory_does_not_lead_before_it_has_all_again",
    ),
    "whose place is taken is asked no more": ("catalog/test_catalog.py", "test_a_replacement_from_beginning_to_end"),
    "in doubt is discarded": ("foreign/test_foreign.py", "test_what_is_in_doubt_ends_as_the_status_table_says"),
    "nobody asks about what is in doubt": (
        "foreign/test_foreign.py",
        "test_what_is_no_part_of_a_committed_transaction_is_discarded",
    ),
    "a host's failure counts as done": (
        "foreign/test_foreign.py",
        "test_one_at_a_time_for_each_transaction_and_a_slow_one_holds_up_no_other_call",
    ),
    "who follows is not restored": (
        "shard/test_dropping.py",
        "test_whoever_began_before_the_drop_stays_out_of_the_new_table",
    ),
    "a flush begins above its first commit": (
        "leader/test_row_writes.py",
        "test_a_flush_changes_no_answer_at_any_time_and_leaves_what_is_not_committed",
    ),
    "an outcome at the snapshot's timestamp is above": (
        "status/test_table.py",
        "test_commit_ts_at_answers_only_what_is_committed_at_or_below_the_snapshot",
    ),
    "commit timestamps do not rise": (
        "status/test_table.py",
        "test_commit_timestamps_rise_in_the_order_of_decisions_even_when_prepares_do_not",
    ),
    "only the last range is asked for a snapshot": (
        "status/test_ranges.py",
        "test_a_snapshot_is_not_below_a_commit_of_any_range_and_below_all_to_come",
    ),
    "a range is dropped with what is kept": ("status/test_table.py", "test_settled_and_spent"),
    "a repeated begin makes more": (
        "status/test_table.py",
        "test_a_begin_is_known_as_long_as_one_of_its_transactions_is",
    ),
    "a beat revives who expires": (
        "status/test_keep_alives.py",
        "test_a_beat_of_many_returns_those_that_were_not_stamped",
    ),
    "floors of the first group do not rise": (
        "status/test_ranges.py",
        "test_a_snapshot_is_below_all_that_is_to_come_in_every_group",
    ),
    "a group begins with ids of another": (
        "catalog/test_catalog.py",
        "test_a_group_that_is_added_has_shards_and_gets_ranges_with_the_next_one_of_the_first_group",
    ),
    "a group that joins began alone": (
        "catalog/test_catalog.py",
        "test_a_group_that_is_added_has_shards_and_gets_ranges_with_the_next_one_of_the_first_group",
    ),
    "placements are not restored": (
        "shard/test_placing.py",
        "test_a_name_that_is_placed_elsewhere_is_told_of_and_taken_by_nobody_here",
    ),
    "who is older is told by ids alone": (
        "status/test_ranges.py",
        "test_which_transactions_began_before_one_is_told_by_ids_and_of_other_groups_as_of_now",
    ),
    "what was taken back comes again": (
        "shard/test_txn_savepoints.py",
        "test_what_comes_again_or_late_brings_nothing_back",
    ),
    "a rollback that comes again is another one": (
        "shard/test_txn_savepoints.py",
        "test_what_comes_again_or_late_brings_nothing_back",
    ),
    "overwritten rows do not come back": (
        "shard/test_txn_savepoints.py",
        "test_an_overwrite_that_is_taken_back_has_overwritten_nothing",
    ),
    "what is judged may be gone": (
        "shard/test_txn_savepoints.py",
        "test_what_was_judged_by_what_is_gone_is_judged_again",
    ),
    "the vote of a learner counts": ("raft/test_learners.py", "test_a_learner_is_no_voter_and_no_candidate"),
    "an empty one is let in": ("raft/test_learners.py", "test_who_has_not_caught_up_is_not_let_in"),
    "a drained node leads on": ("raft/test_learners.py", "test_a_drained_leader_hands_over_and_does_not_come_back"),
    "one goes before another has come": (
        "deploy/test_replicas.py",
        "test_one_comes_once_it_has_caught_up_and_then_another_goes",
    ),
    "a node is removed that holds replicas": (
        "catalog/test_membership.py",
        "test_a_node_leaves_from_beginning_to_end",
    ),
    "who leaves keeps a replica": ("catalog/test_membership.py", "test_a_node_leaves_from_beginning_to_end"),
    "the mover forgets a group": ("catalog/test_mover.py", "test_each_group_is_asked_and_then_the_catalog_is_told"),
    "the catalog is told first": ("catalog/test_mover.py", "test_each_group_is_asked_and_then_the_catalog_is_told"),
    "a move that is done ends all": (
        "catalog/test_membership.py",
        "test_replicas_move_to_a_node_that_joined",
    ),
}
"""The tests that fail with them, most of all of those that no seed is known to find."""

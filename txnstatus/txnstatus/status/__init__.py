"""The status table: one range of transactions a Raft group; its state, its leader, its callers."""

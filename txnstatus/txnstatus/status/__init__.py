"""The status table, cut into ranges of transactions: its state, its leaders, its callers."""

"""The replicated state of a shard: its tables, their transactions, and every command on them."""

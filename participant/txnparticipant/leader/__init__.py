"""What a shard's leader does for callers: tables, reads, writes, row writes, locks."""

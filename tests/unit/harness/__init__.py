"""What unit tests share: groups, shards, managers and ranges that a test plays."""

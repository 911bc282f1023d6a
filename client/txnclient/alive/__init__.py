"""What keeps transactions and snapshots alive while a program works: heartbeats and leases."""

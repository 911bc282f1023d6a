"""Heartbeats and leases, which keep transactions and snapshots alive while a program works."""

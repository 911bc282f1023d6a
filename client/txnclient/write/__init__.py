"""Writes of a transaction: files, rows, locks, drops."""

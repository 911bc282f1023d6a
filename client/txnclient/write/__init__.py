"""Writes of a transaction: files, rows, statements, locks, drops."""

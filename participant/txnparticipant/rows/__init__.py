"""Rows in memory by key: those of a transaction, those committed, and which keys changed when."""

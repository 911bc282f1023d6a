"""Locks on databases, tables and partitions: who holds and who waits, and what is done about it."""

"""Compaction: files written anew, whoever leases that work and does it, and how programs ask for it."""

"""Faults that are put into the service on purpose, by where they are, and the seeds that are known to find them."""

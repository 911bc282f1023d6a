"""Turns: what a process with a Spark session does, ours and plain one after the other, and the data for it."""

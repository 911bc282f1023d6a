"""A commit: what begins it, what is one entry of the log, and who is asked and told by messages."""

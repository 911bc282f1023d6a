"""Who sees which files at a timestamp, and who wins when two changed the same."""

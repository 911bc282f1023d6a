"""Streams: how far a source has been taken, kept with what was taken, and which batch of a query comes next."""

"""Scenarios and seeds: drawn, run by the thousand, replayed, cut down."""

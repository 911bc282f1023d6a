"""Reads: tables at a timestamp, rows over files, differences between two timestamps."""

"""A transaction's work in other systems."""

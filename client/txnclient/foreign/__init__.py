"""A transaction's parts in other systems."""

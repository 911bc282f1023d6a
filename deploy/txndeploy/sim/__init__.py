"""A node's surroundings in memory, for deterministic tests: what a fault does is decided by a seed."""

"""A cluster of node processes on this machine, and networks between them that can be broken."""

"""A shard on its leader: the service and its tables, what clients write there, and models of what must come of it."""

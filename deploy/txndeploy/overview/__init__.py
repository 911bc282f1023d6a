"""How a cluster is as a whole: whether it is healthy, how fast it is, and all that a maintainer needs to know of it."""

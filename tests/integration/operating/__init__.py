"""Operating a cluster: the command line, the doctor, founding, replacing nodes, and what the documents say of it."""

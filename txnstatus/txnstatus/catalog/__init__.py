"""What there is in the cluster and where: the catalog group, and who finds leaders by it."""

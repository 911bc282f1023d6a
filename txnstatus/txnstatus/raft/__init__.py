"""Raft on pysyncobj, used at its seams; docs/architecture.md says what each seam closes.

`journal` and `snapshot` keep what must survive, `group` adapts one SyncObj, `driver` runs its cycle on the loop,
`transport` carries the messages of all groups between two nodes.
"""

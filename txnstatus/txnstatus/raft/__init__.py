"""Raft on pysyncobj, used at its seams; docs/architecture.md says what each seam closes.

`group` adapts one SyncObj (`replica`), `driver` runs its cycle on the loop, `transport` carries the messages of all
groups between two nodes. `journal` and `segments`, `snapshot` and `compaction` keep what must survive, on a `disk`;
`catch_up` and `transfer` bring a replica that lags up to date. `elections` says who may lead, `members` who belongs.
"""

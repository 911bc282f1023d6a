"""Participants: tables whose writes commit or abort with their transaction.

`table_store`, `changes` and `txn` are the replicated state of a shard, `mvcc` says who sees which files, `conflicts`
who wins, `locks` who may go ahead, `strategies` what becomes of the others and `statements` what locks what;
`dispatcher` lets a transaction's first write in, `services`, `reads` and `lock_service` are the shell, `cleaner`
removes what records say.
"""

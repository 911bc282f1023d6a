"""Deterministic simulation: a whole cluster, its clients and its faults in one thread, under one seed.

What runs is the service as it ships, from `Roles` down to pysyncobj, the journal, the Raft transport and the
frames of calls. What is made here is the world around it: time (loop), clocks (clock), TCP (wire),
storage (warehouse), disks (disk), faults (nemesis), clients (client) and what must hold (ledger, watch).
"""

"""Composition: nodes, clusters on one machine, `txnctl`, the demo, the pytest fixture. Only this knows all roles."""

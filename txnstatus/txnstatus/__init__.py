"""The words and wire format of the service, its status table, and Raft below it.

Users import `txnclient`; this package is what all parts share.
"""

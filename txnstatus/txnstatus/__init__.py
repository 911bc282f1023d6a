"""txnstatus: the words, errors and wire format of the transaction service, its status table and its Raft layer.

Users import `txnclient`; this package is what all parts share.
"""

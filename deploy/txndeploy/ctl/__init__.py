"""`txnctl`: the command line."""

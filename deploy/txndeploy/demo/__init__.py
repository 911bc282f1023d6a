"""`txnctl demo`: one transaction over five tables, through the death of a leader."""

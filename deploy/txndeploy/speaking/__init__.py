"""`txnctl sql`: statements and their results, and the shell around them."""

"""What `txnctl` and the demo show."""

"""TxnManager: the stateless proxy that clients talk to. Any number may run; killing one loses nothing."""

"""Work in the background of a shard: cleaning, flushing, retiring, settling what is in doubt."""

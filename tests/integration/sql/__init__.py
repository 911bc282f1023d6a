"""SQL in programs without Spark, and in the shell."""

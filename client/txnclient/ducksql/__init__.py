"""SQL in programs without Spark: sqlglot reads it, DuckDB answers queries, changes are calls of a transaction."""

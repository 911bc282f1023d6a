"""Arrow tables and Parquet files: schemas, writing, statistics."""

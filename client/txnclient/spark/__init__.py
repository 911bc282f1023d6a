"""Tables from PySpark: native Parquet writing and scanning; the transaction decides which files count."""

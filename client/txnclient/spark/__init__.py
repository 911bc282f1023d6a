"""Tables from PySpark: native writes and scans; the transaction decides which files count."""

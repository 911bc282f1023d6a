"""Data source `txn` of PySpark: tables by `spark.read`, `df.write` and `spark.readStream`, without the jar"""

from txnclient.datasource.source import TxnSource, register

__all__ = ["TxnSource", "register"]

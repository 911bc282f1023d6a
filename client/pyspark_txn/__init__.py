"""The format `txn` for every session: PySpark looks through packages of such a name for data sources of theirs.

It does so once in the life of a driver's JVM, in a Python process of its own, where some format is none of Spark's. So
nothing is imported here that may not be installed beside PySpark.
"""

from txnclient.datasource.source import TxnSource as DefaultSource

__all__ = ["DefaultSource"]

"""Spark's own SQL over the tables: a catalog in Spark's JVM, which asks this process what tables are."""

from txnclient.sparksql.attaching import attach, detach, jar, last_commit

__all__ = ["attach", "detach", "jar", "last_commit"]

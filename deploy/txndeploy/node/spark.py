"""Spark on this machine: what it takes to start a session."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_builder() -> SparkSession.Builder:
    """Raises RuntimeError when PySpark or Java is missing."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise RuntimeError("PySpark is not installed: pip install 'txnstatus[spark]'") from error
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise RuntimeError("PySpark needs Java 17 or later: neither JAVA_HOME nor `java` on the PATH leads to one")
    return SparkSession.builder

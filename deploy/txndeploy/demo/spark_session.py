"""A PySpark session whose executors are processes of their own, as on a real cluster."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from txndeploy.node.spark import session_builder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXECUTOR_MB = 1024
LOCAL_CLUSTER = f"local-cluster[2,1,{EXECUTOR_MB}]"


_LOG4J = """
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n
"""


@contextmanager
def local_cluster_session(name: str, scratch: Path, master: str = LOCAL_CLUSTER) -> Iterator[SparkSession]:
    """Whatever Spark leaves behind goes to `scratch`. `master`: another one of this machine, such as local[2].

    Raises RuntimeError when PySpark or Java is missing.
    """
    builder = session_builder()
    import pyspark

    scratch.mkdir(parents=True, exist_ok=True)
    home = Path(pyspark.__file__).parent
    os.environ.setdefault("SPARK_HOME", str(home))
    # Executors run this interpreter, whatever `python3` is.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = (
        builder.master(master)
        .appName(name)
        # By the time alone, two that begin in one second would have the same directory for their executors.
        .config("spark.deploy.appIdPattern", f"app-%s-%04d-{os.getpid()}")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", f"{EXECUTOR_MB}m")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch))
    )
    logging = scratch / "log4j2.properties"
    logging.write_text(_LOG4J.format(file=scratch / "spark.log"))
    builder = builder.config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={logging.as_uri()}")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = builder.getOrCreate()
    # A local-cluster's workers run below SPARK_HOME, beside those of others, and leave what is there.
    work = home / "work" / session.sparkContext.applicationId
    try:
        yield session
    finally:
        session.stop()
        shutil.rmtree(work, ignore_errors=True)

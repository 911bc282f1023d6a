"""A catalog for a Spark session that runs: its jar, its place in the session's configuration, and its end."""

from __future__ import annotations

import re
import uuid
import zipfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txnclient.client.client import Client
from txnclient.outcome import CommitReceipt
from txnclient.spark.alive_rows import has_jvm
from txnclient.sparksql import bridge, failures
from txnclient.sparksql.bridge import Address
from txnclient.sparksql.sessions import Sessions
from txnclient.sparksql.tables import Tables
from txnclient.transaction import blocks
from txnstatus.errors import AlreadyExists, IllegalState, InvalidArgument, NotFound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASS = "txnstatus.spark.TxnCatalog"
EXTENSIONS = "txnstatus.spark.TxnExtensions"
"""The class by which a session knows control statements from its beginning; one that runs learns them later."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WITHOUT = "client.read, client.write and all other calls go on without it"


def attach(spark: SparkSession, client: Client, *, name: str = "txn") -> None:
    """Makes the cluster's tables those of a catalog of this session: `spark.sql("SELECT * FROM txn.air.flights")`.

    Each statement is a transaction of its own, and sees all tables as of one time. What a statement may be, and what it
    does, docs/sql.md says. A session made by `newSession()` needs a call of its own.

    Errors of the service are raised as they are: NotFound, Conflict and the others, in place of Spark's.

    A session of Spark Connect can have it where its server runs on this machine: Spark asks this process on loopback.

    Raises InvalidArgument for a name that is none, AlreadyExists for one that is taken, and IllegalState where the
    catalog's jar cannot be loaded, all that needs no SQL goes on, and within a block of `Transaction.spark`. Raises
    Unavailable where no node answers, and where the session's server is on another machine.
    """
    check_name(name)
    key = f"spark.sql.catalog.{name}"
    catalog_id = spark.conf.get(f"{key}.id", None)
    if catalog_id is not None and bridge.is_served(catalog_id):
        raise AlreadyExists(
            f"catalog {name!r} is attached to this session already", hint="detach it, or take another name"
        )
    if (there := spark.conf.get(key, None)) is not None and (catalog_id is None or not bridge.was_served(catalog_id)):
        raise AlreadyExists(f"catalog {name!r} is there already: {key} is {there}", hint="attach by another name")
    blocks.require_none(spark)
    catalog_id = catalog_id or uuid.uuid4().hex  # Spark keeps a catalog that it has loaded, with its id
    _load_jar(spark)
    failures.raise_again(has_jvm(spark))
    jar_says = build()
    sessions = Sessions(lambda session: Tables(client, jar_says, partial(blocks.attached, spark, session), spark))
    address = bridge.serve(catalog_id, sessions.answer)
    blocks.CATALOGS[catalog_id] = sessions
    for option, value in settings(name, catalog_id, address).items():
        spark.conf.set(option, value)
    if spark.version.startswith("4.0."):  # from 4.1 on scripts are there without it
        spark.conf.set("spark.sql.scripting.enabled", "true")
    try:
        spark.sql(f"SHOW NAMESPACES IN {name}")  # it loads the catalog, and finds that the cluster answers
    except Exception:
        detach(spark, name=name)
        raise


def detach(spark: SparkSession, *, name: str = "txn") -> None:
    """Ends what `attach` began: statements with the catalog's tables fail from now on. The name can be attached again.

    Raises NotFound for a catalog that was not attached, and IllegalState within a block of `Transaction.spark`.
    """
    catalog_id = _attached(spark, name)
    blocks.require_none(spark)
    bridge.stop(catalog_id)
    blocks.CATALOGS.pop(catalog_id, None)


def last_commit(spark: SparkSession, *, name: str = "txn") -> CommitReceipt | None:
    """The receipt of this catalog's last statement that was a transaction of its own and has committed, with its rows.

    None: there was none that wrote rows. Raises NotFound for a catalog that is not attached.
    """
    return blocks.CATALOGS[_attached(spark, name)].of(blocks.session_id(spark)).last_commit


def jar() -> str:
    """The path of the jar, for `spark.jars` of a session to be made; `attach` adds it where it is not loaded."""
    return str(Path(__file__).with_name("txn-spark.jar"))


def settings(name: str, catalog_id: str, address: Address) -> dict[str, str]:
    """Spark's settings of a catalog that is served. The class comes last: with it there is a catalog."""
    key = f"spark.sql.catalog.{name}"
    return {
        f"{key}.id": catalog_id,
        f"{key}.port": str(address.port),
        f"{key}.token": address.token,
        key: CLASS,
    }


def _attached(spark: SparkSession, name: str) -> str:
    """The catalog's id."""
    catalog_id = spark.conf.get(f"spark.sql.catalog.{name}.id", None)
    if catalog_id is None or not bridge.is_served(catalog_id):
        raise NotFound(f"no catalog {name!r} is attached to this session")
    return catalog_id


def check_name(name: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "spark_catalog":
        rule = "letters of ASCII, digits and _, beginning with no digit, and not spark_catalog"
        raise InvalidArgument(f"catalog name {name!r:.100}: expected {rule}")


def build() -> str:
    """What the jar says of the sources that it was built from."""
    with zipfile.ZipFile(jar()) as archive:
        told = archive.read("META-INF/MANIFEST.MF").decode()
    return dict(line.split(": ", 1) for line in told.splitlines() if line)["Implementation-Version"]


def _load_jar(spark: SparkSession) -> None:
    if has_jvm(spark) and _is_loaded(spark) and _is_sent(spark):
        return
    if not Path(jar()).is_file():
        raise IllegalState(f"the catalog's jar is not there: {jar()}", hint=f"install txnstatus again; {_WITHOUT}")
    if not has_jvm(spark):
        spark.addArtifacts(jar())  # the same bytes, once more, are nothing; a class that the server has goes before
        return
    _add_to_driver(spark)
    _session_state(spark).resourceLoader().addJar(jar())
    if not _is_loaded(spark):
        raise IllegalState(f"Spark {spark.version} does not load {CLASS} from {jar()}", hint=_WITHOUT)


def _add_to_driver(spark: SparkSession) -> None:
    """The driver's own class loader finds the jar's classes from now on, as if the jar was there from the beginning.

    Spark's UI looks for classes of metrics in that alone, and not in what was added to sessions.
    """
    java: Any = spark._jvm.java  # type: ignore[union-attr]
    extensible = java.lang.Class.forName("org.apache.spark.util.MutableURLClassLoader")
    loader, outermost = spark._jsparkSession.sharedState().jarClassLoader(), None
    while loader is not None:
        outermost = loader if extensible.isInstance(loader) else outermost
        loader = loader.getParent()
    if outermost is not None:
        outermost.addURL(java.io.File(jar()).toURI().toURL())


def _is_loaded(spark: SparkSession) -> bool:
    utils: Any = spark._jvm.org.apache.spark.util.Utils  # type: ignore[union-attr]
    return bool(utils.classIsLoadable(CLASS))


def _is_sent(spark: SparkSession) -> bool:
    """Whether executors get it. What the driver has loaded outlives a context that was stopped, and its executors."""
    jars: Any = spark.sparkContext._jsc.sc().listJars()
    return any(jars.apply(at).rpartition("/")[2] == Path(jar()).name for at in range(jars.size()))


def _session_state(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState()

"""`txnctl table import` and `txnctl table iceberg`."""

from __future__ import annotations

from typing import Annotated

import typer

import txnclient
from txndeploy.terminal import output
from txndeploy.terminal.commands import ClusterOption, JsonOption, TimeoutOption, tells_errors
from txndeploy.terminal.output import console, plain


@tells_errors
def import_files(
    cluster: ClusterOption,
    name: str,
    path: Annotated[str, typer.Argument(help="A directory: of Parquet files, a Delta table or an Iceberg table.")],
    copy: Annotated[bool, typer.Option("--copy", help="Write the rows into files of the table.")] = False,
    create: Annotated[bool, typer.Option("--create", help="Make the table, with the columns that are there.")] = False,
    primary_key: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Of a table that is made; may be repeated.")
    ] = None,
    location: Annotated[str, typer.Option(metavar="URI", help="Of a table that is made.")] = "",
    as_json: JsonOption = False,
    timeout: TimeoutOption = 30.0,
) -> None:
    """Add the rows of a directory to a table, in one transaction.

    Without --copy the files stay where they are, and become the table's: they are never changed or removed by it, and
    nobody else may do so from then on.
    """
    with txnclient.connect(cluster, timeout=timeout) as client:
        receipt = client.import_files(
            name, path, copy=copy, create=create, primary_key=primary_key or (), location=location or None
        )
    if as_json:
        found = {
            "txn_id": receipt.txn_id,
            "commit_timestamp": receipt.commit_timestamp,
            "passed_over": list(receipt.passed_over),
        }
        typer.echo(output.as_json(found))
        return
    if receipt.passed_over:
        console().print(f"Passed over, as they came in before: {len(receipt.passed_over)} files (--json names them).")
    console().print(f"{plain(path)} is in {plain(name)} as of {receipt.commit_timestamp}.")


@tells_errors
def publish_iceberg(
    cluster: ClusterOption,
    name: str,
    path: Annotated[str, typer.Argument(help="A directory for the metadata, which is of this table alone.")],
    as_json: JsonOption = False,
    timeout: TimeoutOption = 30.0,
) -> None:
    """Write Iceberg metadata of a table as it is now, for engines that read Iceberg.

    The table's files stay where they are, and are named there. What was written before stays, too.
    """
    with txnclient.connect(cluster, timeout=timeout) as client:
        done = client.publish_iceberg(name, path)
    if as_json:
        found = {
            "metadata": done.metadata,
            "version": done.version,
            "commit_timestamp": done.commit_timestamp,
        }
        typer.echo(output.as_json(found))
        return
    console().print(f"{plain(name)} as of {done.commit_timestamp} is version {done.version}: {plain(done.metadata)}")

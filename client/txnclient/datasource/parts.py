"""Parts: what one task of Spark reads. They are planned where snapshots keep the files, and read in executors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from txnclient.read.diff import CHANGE_KIND, INSERT, Changes, KeyedChanges
from txnclient.read.table_files import TableFiles
from txnstatus.errors import IllegalState
from txnstatus.names import quoted
from txnstatus.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

COMMIT_TIMESTAMP = "_commit_timestamp"
TABLE = "_table"
OTHERS = (CHANGE_KIND, COMMIT_TIMESTAMP, TABLE)
"""What a read may show beside the columns of a table."""
MAX_BATCH_ROWS = 100_000
TASKS = 32
"""Most tasks that read one table: they are planned before Spark says how many would run at once."""


@dataclass
class Part(InputPartition):
    """Rows of some files of a table, or what has changed in it between two timestamps."""

    what: TableFiles | Changes | KeyedChanges
    names: Mapping[str, str]
    """What the read calls a column → what it is called here; one that is not here is null."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Columns that are the same in all of its rows."""
    only_inserts: str = ""
    """The table, where its rows are read as a stream that shows none that go or change."""

    def __post_init__(self) -> None:
        super().__init__(None)


def ddl(schema: Schema, more: Sequence[str] = ()) -> str:
    """The columns, and some more, as Spark reads them."""
    return ", ".join([*(f"{quoted(column.name)} {column.type}" for column in schema.columns), *more])


def split(files: TableFiles) -> list[TableFiles]:
    """Its files in lots for tasks, the largest ones first; all in one where rows were changed by key."""
    if files.changes is not None or len(files.files) < 2:
        return [files]
    order = sorted(range(len(files.files)), key=lambda number: -files.files[number].bytes)
    lots = [set(order[number::TASKS]) for number in range(min(TASKS, len(order)))]
    return [files.only(number in lot for number in range(len(files.files))) for lot in lots]


def read(part: Part, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows, in the types that Spark expects.

    Raises IllegalState where rows are read that a stream without changes cannot show, and what reading files raises.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    rows, what = None, part.what
    target = to_arrow_schema(schema, timezone="UTC")
    if isinstance(what, TableFiles):
        names = [part.names[name] for name in target.names if name in part.names]
        rows = what.to_arrow(names or None)
    else:
        rows = what.to_arrow()
        kinds = rows[CHANGE_KIND]
        if part.only_inserts and pc.any(pc.not_equal(kinds, INSERT)).as_py():
            raise IllegalState(
                f"rows of table {part.only_inserts} were deleted or changed: a stream of its rows cannot show that",
                hint='.option("changes", "true") shows what became of each row, in the column _change_kind',
            )
    columns = []
    for wanted in target:
        if wanted.name in part.constants:
            column = pa.repeat(pa.scalar(part.constants[wanted.name], wanted.type), rows.num_rows)
        elif wanted.name in part.names:
            column = rows[part.names[wanted.name]].cast(wanted.type)
        elif wanted.name == CHANGE_KIND and CHANGE_KIND in rows.column_names:
            column = rows[CHANGE_KIND].cast(wanted.type)
        elif wanted.name == CHANGE_KIND:
            column = pa.repeat(pa.scalar(INSERT, wanted.type), rows.num_rows)
        else:
            column = pa.nulls(rows.num_rows, wanted.type)  # it was added since, with no default
        columns.append(column)
    return iter(pa.table(columns, schema=target).to_batches(MAX_BATCH_ROWS))

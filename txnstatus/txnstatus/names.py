"""What tables and columns may be called: any letters, of any script; and what names of parts of groups say."""

from __future__ import annotations

import re
import unicodedata

from txnstatus.errors import InvalidArgument

MAX_CHARS = 128
MAX_BYTES = 200
"""Longest name of a table or a database in UTF-8: a directory is called so."""
SYSTEM = "system"
"""The database in which SQL shows what the cluster knows of itself."""
PARTITION_PREFIX = "_partition_"
"""How directories begin that split a write by partition columns; the columns themselves stay in the files."""
OWN_DATABASE = "_txn"
"""The database of tables that clients make for what they keep themselves, as marks."""
CHANGE_PREFIX = "_txn_"
"""How columns begin that files of row changes have besides the table's."""
ROW_INDEX = "_tmp_metadata_row_index"
"""The column that Spark's reader of Parquet fills with the numbers of rows in their files, whatever is there."""
_ASCII = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TABLE_RULE = (
    "expected database.table, each of letters and digits of any script, _, - and spaces inside, beginning with a "
    f"letter or _, of at most {MAX_CHARS} characters and {MAX_BYTES} bytes"
)
_NOT_COMPOSED = (
    "its letters are not composed as in Unicode's form NFC, which looks the same: unicodedata.normalize('NFC', name)"
)


def kind_and_number(part: str) -> tuple[str, int]:
    """What a part of a Raft group is, by its name, which is `KIND-NUMBER`. Raises ValueError."""
    kind, _, number = part.partition("-")
    return kind, int(number)


def check_renamed(table: str, new_name: str) -> None:
    """Whether a table may be called so, as far as names tell. Raises InvalidArgument."""
    database, _, name = check_table_name(table).partition(".")
    other, _, new = check_table_name(new_name).partition(".")
    if other != database:
        raise InvalidArgument(
            f"table {table} cannot be called {new_name}: a table stays in its database, {database}",
            hint="CREATE TABLE the other one AS SELECT * FROM it, and DROP TABLE it: two steps",
        )
    if database == OWN_DATABASE:
        raise InvalidArgument(
            f"table {table} cannot be called {new_name}: clients know the tables of {database} by their names"
        )
    if new == name:
        raise InvalidArgument(f"table {table} is called so already")


def check_table_name(name: str) -> str:
    """Raises InvalidArgument."""
    database, dot, table = name[: 2 * MAX_CHARS + 2].partition(".")
    if not (dot and is_database_name(database) and is_database_name(table)) or name != f"{database}.{table}":
        composed = len(name) > 2 * MAX_CHARS + 2 or unicodedata.is_normalized("NFC", name)
        raise InvalidArgument(f"table name {_shown(name)}: {_TABLE_RULE if composed else _NOT_COMPOSED}")
    if fold(database) == SYSTEM:
        raise InvalidArgument(
            f"table name {_shown(name)}: {SYSTEM} is what the cluster knows of itself",
            hint=f"tables are made in other databases; SQL reads {SYSTEM}'s",
        )
    return name


def is_database_name(name: str) -> bool:
    """Whether a database, or what follows its dot in a table's name, can be called so."""
    if len(name) > MAX_CHARS or not name:
        return False
    if _ASCII.fullmatch(name):
        return True
    starts = name[0] == "_" or unicodedata.category(name[0])[0] == "L"
    # Of two that look the same, and are the same directory to some file systems, one is a name.
    composed = unicodedata.is_normalized("NFC", name)
    return starts and composed and _is_path_part(name) and len(name.encode()) <= MAX_BYTES


def check_column_name(name: str) -> None:
    """Raises InvalidArgument."""
    if _ASCII.fullmatch(name, 0, MAX_CHARS + 1) and len(name) <= MAX_CHARS:
        wrong = ""
    elif not 0 < len(name) <= MAX_CHARS:
        wrong = f"it has {len(name)} characters, 1 to {MAX_CHARS} are possible"
    elif not name.isprintable():
        wrong = "control characters are not possible"
    elif not unicodedata.is_normalized("NFC", name):
        wrong = _NOT_COMPOSED
    else:
        wrong = "it begins or ends with a space" if name != name.strip() else ""
    for prefix in (PARTITION_PREFIX, CHANGE_PREFIX):
        if name[: len(prefix)].lower() == prefix:
            wrong = f"names that begin with {prefix} are taken"
    if name.lower() == ROW_INDEX:
        wrong = "it is what Spark calls the number of a row"
    if wrong:
        raise InvalidArgument(f"column name {_shown(name)}: {wrong}")


def check_partition_column(name: str) -> None:
    """Raises InvalidArgument: directories are called by what files are split by."""
    if not _is_path_part(name):
        raise InvalidArgument(
            f"column {name!r} cannot be a partition column: the name of one is of letters, digits, _, - and spaces"
        )


def fold(name: str) -> str:
    """The same for names that differ by case only, or by how their letters are composed: in one table, one column."""
    return name.lower() if name.isascii() else unicodedata.normalize("NFC", name.upper().casefold())


def quoted(name: str) -> str:
    """The name of a column as Spark SQL reads it, whatever it is made of."""
    return f"`{name.replace('`', '``')}`"


def double_quoted(name: str) -> str:
    """The name of a column as DuckDB reads it."""
    return '"' + name.replace('"', '""') + '"'


def _is_path_part(name: str) -> bool:
    plain = all(character in "_- " or unicodedata.category(character)[0] in "LMN" for character in name)
    return plain and name == name.strip()


def _shown(name: str) -> str:
    return repr(name if len(name) <= 3 * MAX_CHARS else f"{name[: 3 * MAX_CHARS]}...")

"""Columns that files and rows do not have, since these came first: nulls, or what the column's default was as it came.

The value goes with the column's Arrow type, as metadata of its field: whatever reads a table by such a schema has it.
Whether a file has a column, the file alone says: one that a program staged may lack what others of its time have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_KEY = b"txn.initial"


def described(initial: str | None) -> dict[bytes, bytes]:
    """The metadata of a field whose column has this value, as text, where it is not; None: nulls."""
    return {} if initial is None else {_KEY: initial.encode()}


def text(field: pa.Field) -> str | None:
    """The value's text; None: nulls."""
    found = (field.metadata or {}).get(_KEY)
    return None if found is None else found.decode()


def texts(schema: pa.Schema) -> dict[str, str]:
    """The columns that are not null where they are not → the text of their value."""
    return {field.name: found for field in schema if (found := text(field)) is not None}


def column(field: pa.Field, rows: int) -> pa.Array:
    """Rows of a column that is not there, so many."""
    import pyarrow as pa

    found = text(field)
    return pa.nulls(rows, field.type) if found is None else pa.repeat(scalar(found, field.type), rows)


def scalar(text: str, kind: pa.DataType) -> pa.Scalar:
    """The value with this text. Raises pyarrow.ArrowInvalid for a text that is none of the type's."""
    import pyarrow as pa

    return pa.scalar(text, pa.string()).cast(kind)

"""ALTER TABLE of columns, as the service has it."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from txnclient.ducksql.trees import require_only, shown
from txnclient.formats import schemas
from txnclient.formats.fields import Fields
from txnstatus.ddl import with_zone
from txnstatus.errors import InvalidArgument
from txnstatus.schema import column_type
from txnstatus.schema_changes import FIRST, ColumnChange


def changes(action: exp.Expression, tree: exp.Expression, fields: Fields) -> Iterator[ColumnChange]:
    """What one part of the statement does to columns, and `fields` of these. Raises InvalidArgument for what is not
    possible, or not so.
    """
    match action:
        case exp.RenameColumn() if not action.args.get("exists"):
            yield ColumnChange(_column(action.this, tree), rename=_column(action.args["to"], tree))
        case exp.Drop() if action.args["kind"] in ("COLUMN", "COLUMNS") and not action.args.get("exists"):
            for each in action.args["tables"]:
                for column in each.expressions if isinstance(each, exp.Schema) else [each]:
                    yield ColumnChange(_column(column, tree), drop=True)
        case exp.ColumnDef():
            yield _added(action, tree, fields)
        case exp.Schema() if all(isinstance(each, exp.ColumnDef) for each in action.expressions):
            for each in action.expressions:
                yield _added(each, tree, fields)
        case exp.AlterColumn():
            yield _altered(action, tree)
        case _:
            raise InvalidArgument(
                f"{shown(tree)}: that is nothing that becomes of a table without Spark",
                hint="SET TBLPROPERTIES, RENAME TO, ADD, DROP, RENAME and ALTER COLUMN are possible: see docs/sql.md",
            )


def declared(column: object) -> str:
    """A column as our DDL has it. Raises InvalidArgument for what no table keeps."""
    if not isinstance(column, exp.ColumnDef) or column.kind is None:
        said = shown(column) if isinstance(column, exp.Expression) else repr(column)
        raise InvalidArgument(f"{said}: expected a column and its type; a key is a property, primary_key = 'a'")
    required = default = comment = ""
    for each in column.args.get("constraints", ()):
        if isinstance(each.kind, exp.NotNullColumnConstraint) and not each.kind.args.get("allow_null"):
            required = " NOT NULL"
        elif isinstance(each.kind, exp.CommentColumnConstraint):
            comment = f" COMMENT {each.kind.this.sql('databricks')}"
        elif isinstance(each.kind, exp.DefaultColumnConstraint):
            text = _default(each.kind.this, column)
            default = "" if text is None else f" DEFAULT {exp.Literal.string(text).sql('databricks')}"
        else:
            raise InvalidArgument(f"{shown(column)}: a column has a type, NOT NULL, DEFAULT and COMMENT, nothing else")
    name = exp.to_identifier(column.name, quoted=True).sql("databricks")
    return f"{name} {column.kind.sql('databricks')}{required}{default}{comment}"


def _added(column: exp.ColumnDef, tree: exp.Expression, fields: Fields) -> ColumnChange:
    (found,) = schemas.to_columns(declared(column))
    if not found.nullable:
        raise InvalidArgument(
            f"{shown(tree)}: column {found.name!r} cannot be NOT NULL, the rows that there are have none"
        )
    if isinstance(column.this, exp.Dot):
        if column.args.get("position") is not None or found.default is not None:
            raise InvalidArgument(f"{shown(tree)}: a field of a struct comes last, and has no default")
        return fields.added(_path(column.this), found.type)
    after = None
    if (position := column.args.get("position")) is not None:
        after = FIRST if position.args["position"] == "FIRST" else _column(position.this, tree)
    return ColumnChange(found.name, found.type, found.comment, after, default=found.default)


def _path(node: exp.Expression) -> list[str]:
    """The names of `s.inner.x`, from the column on."""
    return [*_path(node.this), node.expression.name] if isinstance(node, exp.Dot) else [node.name]


def _altered(action: exp.AlterColumn, tree: exp.Expression) -> ColumnChange:
    require_only(action, "ALTER COLUMN", "this", "comment", "drop", "allow_null", "dtype", "default")
    name, comment = _column(action.this, tree), action.args.get("comment")
    if comment is not None:
        return ColumnChange(name, comment=comment.name)
    if action.args.get("drop") and action.args.get("allow_null"):
        return ColumnChange(name, takes_nulls=True)
    if action.args.get("drop"):
        return ColumnChange(name, drop_default=True)
    if (default := action.args.get("default")) is not None:
        text = _default(default, tree)
        return ColumnChange(name, default=text, drop_default=text is None)
    if (kind := action.args.get("dtype")) is not None:
        return ColumnChange(name, widen=column_type(name, kind.sql("databricks")))
    raise InvalidArgument(
        f"{shown(tree)}: a column gets a COMMENT, a wider TYPE, a DEFAULT, or DROP NOT NULL, without Spark"
    )


def _default(value: exp.Expression, tree: exp.Expression) -> str | None:
    """The text of a literal; of a time with its zone. None: NULL. Raises InvalidArgument."""
    match value:
        case exp.Null():
            return None
        case exp.Literal():
            return value.name
        case exp.Neg(this=exp.Literal(is_string=False)):
            return f"-{value.name}"
        case exp.Boolean():
            return str(value.this)
        case exp.Cast(this=exp.Literal(is_string=True)) if value.to.is_type("timestamptz"):
            return with_zone(value.name)
        case exp.Cast(this=exp.Literal()):
            return value.name
    raise InvalidArgument(f"{shown(tree)}: a default is a literal, not {shown(value)}")


def _column(node: exp.Expression, tree: exp.Expression) -> str:
    """The name of a whole column. Raises InvalidArgument."""
    if isinstance(node, exp.Identifier) or (isinstance(node, exp.Column) and not node.table):
        return node.name
    raise InvalidArgument(
        f"{shown(tree)}: {shown(node)} is no column; fields of structs are added, and stay",
        hint="add a column of the type that is wanted, UPDATE it from this one, and drop this one",
    )

"""Rows of files without the dead ones, by Spark: told by the file and the number in it that Spark's scan knows of each.

Where the driver's JVM is at hand, it is told by a roaring bitmap within the generated code, which Spark has the library
for: an expression that calls a Java object. Where it is not (Spark Connect), by a join with bits that are broadcast.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import functions

from txnstatus.errors import InternalError
from txnstatus.lake.dead_rows import DeadRows

if TYPE_CHECKING:
    from pyroaring import BitMap
    from pyspark.sql import Column, DataFrame, SparkSession

FILE, ROW = "_txn_file", "_txn_row"
"""Columns of a placed scan."""
_UNKNOWN = "which rows of a file are deleted is not known: it is not called as it was listed"


def placed(scan: DataFrame) -> DataFrame:
    """A bare scan's rows, each with its file, as Spark calls it, and its number in that."""
    metadata = scan.metadataColumn("_metadata")  # also where the table has a column of that name
    return scan.withColumns({FILE: metadata["file_path"], ROW: metadata["row_index"]})


def called(frame: DataFrame, uris: Iterable[str]) -> dict[str, str]:
    """What Spark calls each file in the rows of a scan of them. Raises InternalError for one that it does not scan."""
    listed = {_decoded(name): name for name in frame.inputFiles()}
    found = {uri: listed.get(_decoded(uri), "") for uri in uris}
    for uri, name in found.items():
        if not name:
            raise InternalError(f"Spark scans no {uri}: it scans {', '.join(sorted(listed.values())[:3])}")
    # Lists of files have file:///path, and rows file:/path.
    return {uri: name.replace("file:///", "file:/", 1) for uri, name in found.items()}


def _decoded(uri: str) -> str:
    """The path as Hadoop has it, whose own URIs have other characters escaped than ours."""
    return unquote(uri).replace("file:///", "file:/", 1)


def alive(frame: DataFrame, dead: DeadRows) -> DataFrame:
    """The rows of a placed scan that are not dead. `dead`: of each of its files, rows that there are."""
    names = called(frame, dead)
    by_name = {name: dead[uri] for uri, name in names.items()}
    if has_jvm(frame.sparkSession):
        return frame.where(~_in_bitmap(frame, by_name))
    return _without_bits(frame, by_name)


def has_jvm(spark: SparkSession) -> bool:
    """Whether the driver's JVM is at hand: it is not with Spark Connect."""
    return not type(spark).__module__.startswith("pyspark.sql.connect.")


class _Java:
    """The classes of the driver's JVM that are needed: each part of a name that is looked up is a call to the JVM."""

    def __init__(self, jvm: Any) -> None:
        spark = jvm.org.apache.spark
        expressions, types = spark.sql.catalyst.expressions, spark.sql.types
        self.columns = spark.sql.classic.ExpressionUtils
        self.invoke, self.literal = expressions.objects.Invoke, expressions.Literal
        self.transformer = jvm.org.apache.commons.collections4.functors.MapTransformer.mapTransformer
        self.new_map, self.new_bitmap = jvm.java.util.HashMap, jvm.org.roaringbitmap.RoaringBitmap
        self.text, self.wrap = spark.unsafe.types.UTF8String.fromString, jvm.java.nio.ByteBuffer.wrap
        self.to_seq = jvm.PythonUtils.toSeq
        self.none = self.to_seq([])
        self.boolean = types.DataType.fromDDL("boolean")
        self.finder_type, self.bitmap_type = (
            types.ObjectType(jvm.java.lang.Class.forName(name))
            for name in ("org.apache.commons.collections4.Transformer", "org.roaringbitmap.RoaringBitmap")
        )

    def call(self, target: Any, method: str, kind: Any, argument: Column) -> Any:
        """An expression that is what the method answers."""
        arguments = self.to_seq([self.columns.expression(argument._jc)])
        return self.invoke(target, method, kind, arguments, self.none, True, True, True)

    def map_of(self, by_name: Mapping[str, BitMap]) -> Any:
        """The same map, of Spark's own strings and Java's own bitmaps."""
        found = self.new_map(2 * len(by_name))
        for name, positions in by_name.items():
            bitmap = self.new_bitmap()
            bitmap.deserialize(self.wrap(positions.serialize()))
            found.put(self.text(name), bitmap)
        return found


_of_jvm = lru_cache(maxsize=1)(_Java)


def _in_bitmap(frame: DataFrame, by_name: Mapping[str, BitMap]) -> Column:
    from pyspark.sql.classic.column import Column as ClassicColumn

    java = _of_jvm(frame.sparkSession._jvm)
    # A map would be written out, bitmaps and all, wherever Spark shows a plan; what looks into one is not.
    finder = java.literal(java.transformer(java.map_of(by_name)), java.finder_type)
    bitmap = java.call(finder, "transform", java.bitmap_type, functions.col(FILE))
    found = java.call(bitmap, "contains", java.boolean, functions.col(ROW).cast("int"))
    return functions.coalesce(ClassicColumn(java.columns.column(found)), functions.raise_error(functions.lit(_UNKNOWN)))


def _without_bits(frame: DataFrame, by_name: Mapping[str, BitMap]) -> DataFrame:
    import pyarrow as pa

    bits = pa.table({"_txn_of": pa.array(by_name, pa.string()), "_txn_bits": _words(by_name.values())})
    known = frame.sparkSession.createDataFrame(bits, "_txn_of string, _txn_bits array<bigint>")
    word = f"get(_txn_bits, int(shiftright({ROW}, 6)))"
    is_dead = functions.expr(f"{FILE} = _txn_of AND getbit({word}, int({ROW} & 63)) = 1")
    return frame.join(functions.broadcast(known), is_dead, "left_anti")


def _words(bitmaps: Iterable[BitMap]) -> Any:
    """Bitmaps as lists of numbers of 64 bits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words, ends = [], [0]
    for positions in bitmaps:
        places = positions.to_array()
        last = positions.max() | 63 if positions else -1
        index = pa.Array.from_buffers(pa.int32(), len(places), [None, pa.py_buffer(places)])
        is_dead = pc.is_valid(pc.inverse_permutation(index, max_index=last))
        words.append(pa.Array.from_buffers(pa.int64(), (last + 1) // 64, [None, is_dead.buffers()[1]]))
        ends.append(ends[-1] + (last + 1) // 64)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.chunked_array(words, pa.int64()).combine_chunks())

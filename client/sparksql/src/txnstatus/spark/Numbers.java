package txnstatus.spark;

import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** Numbers of a batch's rows, each made as it is asked for: of most rows none is. */
final class Numbers extends ColumnVector {
  private final long first;
  private final ColumnVector rows;

  /** `rows`: what each one is beyond the first number, in a vector that others close; null: they follow one another. */
  Numbers(long first, ColumnVector rows) {
    super(DataTypes.LongType);
    this.first = first;
    this.rows = rows;
  }

  @Override public long getLong(int row) { return first + (rows == null ? row : rows.getLong(row)); }
  @Override public void close() {}
  @Override public boolean hasNull() { return false; }
  @Override public int numNulls() { return 0; }
  @Override public boolean isNullAt(int row) { return false; }
  @Override public boolean getBoolean(int row) { throw otherType(); }
  @Override public byte getByte(int row) { throw otherType(); }
  @Override public short getShort(int row) { throw otherType(); }
  @Override public int getInt(int row) { throw otherType(); }
  @Override public float getFloat(int row) { throw otherType(); }
  @Override public double getDouble(int row) { throw otherType(); }
  @Override public ColumnarArray getArray(int row) { throw otherType(); }
  @Override public ColumnarMap getMap(int row) { throw otherType(); }
  @Override public Decimal getDecimal(int row, int precision, int scale) { throw otherType(); }
  @Override public UTF8String getUTF8String(int row) { throw otherType(); }
  @Override public byte[] getBinary(int row) { throw otherType(); }
  @Override public ColumnVector getChild(int ordinal) { throw otherType(); }

  private UnsupportedOperationException otherType() { return new UnsupportedOperationException("a number of a row is a bigint"); }
}

package txnstatus.spark;

import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** Some rows of a vector, which stays the reader's to close. */
final class ChosenRows extends ColumnVector {
  private final ColumnVector of;
  private final int[] rows;

  ChosenRows(ColumnVector of, int[] rows) {
    super(of.dataType());
    this.of = of;
    this.rows = rows;
  }

  @Override public void close() {}
  @Override public boolean hasNull() { return of.hasNull(); }
  @Override public int numNulls() { return of.numNulls(); }
  @Override public boolean isNullAt(int row) { return of.isNullAt(rows[row]); }
  @Override public boolean getBoolean(int row) { return of.getBoolean(rows[row]); }
  @Override public byte getByte(int row) { return of.getByte(rows[row]); }
  @Override public short getShort(int row) { return of.getShort(rows[row]); }
  @Override public int getInt(int row) { return of.getInt(rows[row]); }
  @Override public long getLong(int row) { return of.getLong(rows[row]); }
  @Override public float getFloat(int row) { return of.getFloat(rows[row]); }
  @Override public double getDouble(int row) { return of.getDouble(rows[row]); }
  @Override public ColumnarArray getArray(int row) { return of.getArray(rows[row]); }
  @Override public ColumnarMap getMap(int row) { return of.getMap(rows[row]); }
  @Override public Decimal getDecimal(int row, int precision, int scale) { return of.getDecimal(rows[row], precision, scale); }
  @Override public UTF8String getUTF8String(int row) { return of.getUTF8String(rows[row]); }
  @Override public byte[] getBinary(int row) { return of.getBinary(rows[row]); }
  @Override public ColumnVector getChild(int ordinal) { return new ChosenRows(of.getChild(ordinal), rows); }
}

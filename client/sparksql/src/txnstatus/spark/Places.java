package txnstatus.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Where rows of a snapshot lie, each as one number: its file's in the upper half, its own there in the lower one. A MERGE
 * shuffles the places of all rows of its table: names of files would be most of what it moves.
 */
final class Places {
  /** The number of the rows that are in no file; its name is that by which Python knows them. */
  private static final int LOOSE = 0;
  private static final int ROW_BITS = 32;

  private final List<String> files = new ArrayList<>(List.of(""));
  private final Map<String, Integer> numbers = new HashMap<>(Map.of("", LOOSE));

  /** The place of a file's first row. */
  synchronized long first(String uri) {
    return (long) numbers.computeIfAbsent(uri, each -> {
      files.add(each);
      return files.size() - 1;
    }) << ROW_BITS;
  }

  synchronized String file(int number) { return files.get(number); }

  static int file(long place) { return (int) (place >>> ROW_BITS); }
  static int row(long place) { return (int) place; }

  /** Places of rows of one file, given their numbers there in a vector that others close. */
  static final class Vector extends ColumnVector {
    private final long first;
    private final ColumnVector rows;

    Vector(long first, ColumnVector rows) {
      super(DataTypes.LongType);
      this.first = first;
      this.rows = rows;
    }

    @Override public long getLong(int row) { return first + rows.getLong(row); }
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

    private UnsupportedOperationException otherType() { return new UnsupportedOperationException("a place is a bigint"); }
  }
}

package txnstatus.spark;

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** The column `_metadata`, as Spark's own scans of files have it: where a row lies. It is null for rows that are in no file. */
final class Metadata {
  static final String NAME = "_metadata", ROW_INDEX = "row_index";
  static final StructType TYPE = new StructType().add("file_path", DataTypes.StringType).add("file_name", DataTypes.StringType)
      .add("file_size", DataTypes.LongType).add("file_block_start", DataTypes.LongType).add("file_block_length", DataTypes.LongType)
      .add(ROW_INDEX, DataTypes.LongType);

  private Metadata() {}

  /** Whether it asks for the number of the row, among what it asks for. */
  static boolean numbers(StructField wanted) { return ((StructType) wanted.dataType()).getFieldIndex(ROW_INDEX).isDefined(); }

  /** What is the same for all rows of a file, or of a part of one; null: the number of the row. */
  private static Object part(String name, PartitionedFile file) {
    String uri = file.urlEncodedPath();
    return switch (name) {
      case "file_path" -> UTF8String.fromString(uri);
      case "file_name" -> UTF8String.fromString(uri.substring(uri.lastIndexOf('/') + 1));
      case "file_size" -> file.fileSize();
      case "file_block_start" -> file.start();
      case "file_block_length" -> file.length();
      default -> null;
    };
  }

  /** As a row has it; the number of the row is where `numbered` puts it. */
  static GenericInternalRow row(StructType wanted, PartitionedFile file) {
    Object[] parts = new Object[wanted.size()];
    for (int i = 0; i < parts.length; i++) parts[i] = part(wanted.apply(i).name(), file);
    return new GenericInternalRow(parts);
  }

  static void numbered(GenericInternalRow row, StructType wanted, long number) {
    row.update(wanted.fieldIndex(ROW_INDEX), number);
  }

  /** As a batch has it. `numbers`: those of the rows, where they are asked for. */
  static ColumnVector vector(StructType wanted, PartitionedFile file, ColumnVector numbers, int count) {
    ColumnVector[] parts = new ColumnVector[wanted.size()];
    for (int i = 0; i < parts.length; i++) {
      Object part = part(wanted.apply(i).name(), file);
      parts[i] = part == null ? numbers : constant(part, wanted.apply(i), count);
    }
    return new Struct(wanted, parts);
  }

  private static ColumnVector constant(Object part, StructField field, int count) {
    ConstantColumnVector found = new ConstantColumnVector(count, field.dataType());
    if (part instanceof UTF8String text) found.setUtf8String(text);
    else found.setLong((Long) part);
    return found;
  }

  /** Of rows that are in no file. */
  static ColumnVector none(StructField wanted, int count) {
    ConstantColumnVector found = new ConstantColumnVector(count, wanted.dataType());
    found.setNull();
    return found;
  }

  /** A struct of vectors that others close. */
  private static final class Struct extends ColumnVector {
    private final ColumnVector[] parts;

    Struct(StructType type, ColumnVector[] parts) {
      super(type);
      this.parts = parts;
    }

    @Override public ColumnVector getChild(int ordinal) { return parts[ordinal]; }
    @Override public void close() {}
    @Override public boolean hasNull() { return false; }
    @Override public int numNulls() { return 0; }
    @Override public boolean isNullAt(int row) { return false; }
    @Override public boolean getBoolean(int row) { throw noValue(); }
    @Override public byte getByte(int row) { throw noValue(); }
    @Override public short getShort(int row) { throw noValue(); }
    @Override public int getInt(int row) { throw noValue(); }
    @Override public long getLong(int row) { throw noValue(); }
    @Override public float getFloat(int row) { throw noValue(); }
    @Override public double getDouble(int row) { throw noValue(); }
    @Override public ColumnarArray getArray(int row) { throw noValue(); }
    @Override public ColumnarMap getMap(int row) { throw noValue(); }
    @Override public Decimal getDecimal(int row, int precision, int scale) { throw noValue(); }
    @Override public UTF8String getUTF8String(int row) { throw noValue(); }
    @Override public byte[] getBinary(int row) { throw noValue(); }

    private UnsupportedOperationException noValue() { return new UnsupportedOperationException("a struct has parts, and no value"); }
  }
}

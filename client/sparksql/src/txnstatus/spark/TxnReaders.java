package txnstatus.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.rdd.InputFileBlockHolder;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetPartitionReaderFactory;
import org.apache.spark.sql.execution.vectorized.ColumnVectorUtils;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;
import scala.jdk.javaapi.CollectionConverters;

/** Readers of tasks: Spark's own of each file, without the rows that are deleted, and with the places that are asked for. */
final class TxnReaders implements PartitionReaderFactory {
  private final ParquetPartitionReaderFactory parquet;
  private final StructType read, wanted, splitBy;
  private final Numbered numbered;
  private final SoughtRows.Condition sought;

  /** How it is known which row of its file one is. */
  enum Numbered {
    NOT,
    /** By those before it: the reader leaves none of its piece out. */
    BY_COUNT,
    /** By the column that is read last, of which Spark's reader makes an object for each row. */
    BY_READER
  }

  /**
   * What `parquet` reads is `read`: the columns that are wanted, in their order, and perhaps the row index behind them. `splitBy`: the
   * columns of which a file that does not have them comes with values. `sought`: for what rows of batches are looked at; null: there
   * is nothing.
   */
  TxnReaders(ParquetPartitionReaderFactory parquet, StructType read, StructType wanted, StructType splitBy, Numbered numbered,
      SoughtRows.Condition sought) {
    this.parquet = parquet;
    this.read = read;
    this.wanted = wanted;
    this.splitBy = splitBy;
    this.numbered = numbered;
    this.sought = sought;
  }

  @Override public boolean supportColumnarReads(InputPartition partition) { return parquet.supportColumnarReads(partition); }

  @Override public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    if (partition instanceof TxnBatch.LooseRows loose) return new LooseReader(loose.stream(), wanted);
    return new Batches((TxnBatch.Files) partition);
  }

  @Override public PartitionReader<InternalRow> createReader(InputPartition partition) {
    if (partition instanceof TxnBatch.LooseRows loose) return LooseReader.byRow(loose.stream(), wanted);
    return new Rows((TxnBatch.Files) partition);
  }

  /** The place of a wanted column in what is read; behind all of it are a row's place, and its file's metadata. */
  private int source(StructField field) {
    if (field.name().equals(TxnTable.PLACE)) return read.size();
    return read.getFieldIndex(field.name()).isDefined() ? read.fieldIndex(field.name()) : read.size() + 1;
  }

  /** The place of a wanted column among the values that the file comes with; less than 0: the file has it itself. */
  private int value(StructField field, PartitionedFile file) {
    return file.partitionValues().numFields() > 0 && splitBy.getFieldIndex(field.name()).isDefined() ? splitBy.fieldIndex(field.name()) : -1;
  }

  /** What a task reads of its files, one after the other. */
  private abstract class Files<T> implements PartitionReader<T> {
    private final PartitionedFile[] files;
    private final long[] places;
    private final Broadcast<HashMap<String, byte[]>> dead;
    private int begun;
    private PartitionReader<T> reader;
    PartitionedFile file;
    /** The place of its first row. */
    long first;
    /** The number of the row that is read next, if they are counted. */
    long following;
    RoaringBitmap deleted;

    Files(TxnBatch.Files partition) {
      files = partition.files();
      places = partition.places();
      dead = partition.dead();
    }

    abstract PartitionReader<T> open(PartitionedFile file);
    /** Whether anything is left of what was read; then `get` returns that. */
    abstract boolean take(T found);

    @Override public boolean next() throws IOException {
      while (true) {
        if (reader == null) {
          if (begun == files.length) return false;
          begin(files[begun], places[begun++]);
        }
        while (read()) if (take(reader.get())) return true;
        reader.close();
        reader = null;
      }
    }

    private boolean read() throws IOException {
      try {
        return reader.next();
      } catch (Exception e) {
        throw new IOException("reading " + file.urlEncodedPath() + " failed: " + e.getMessage(), e);
      }
    }

    private void begin(PartitionedFile piece, long place) throws IOException {
      file = piece;
      first = place;
      deleted = DeadRows.of(file.urlEncodedPath(), dead);
      InputFileBlockHolder.set(file.urlEncodedPath(), file.start(), file.length());
      if (parquet.filters().length > 0) TaskSettings.forget(parquet.broadcastedConf());
      try {
        following = numbered == Numbered.BY_COUNT ? rowsBefore(piece) : 0;
        reader = open(file);
      } catch (Exception e) {
        throw new IOException("reading " + file.urlEncodedPath() + " failed: " + e.getMessage(), e);
      }
    }

    /** Those of the row groups that are of the part before the piece, by the rule that the reader goes by. */
    private long rowsBefore(PartitionedFile piece) throws IOException {
      if (piece.start() == 0) return 0;
      Configuration conf = parquet.broadcastedConf().value().value();
      ParquetReadOptions part = HadoopReadOptions.builder(conf).withRange(0, piece.start()).build();
      try (ParquetFileReader before = ParquetFileReader.open(HadoopInputFile.fromPath(piece.toPath(), conf), part)) {
        return before.getRecordCount();
      }
    }

    @Override public void close() throws IOException {
      InputFileBlockHolder.unset();
      if (reader != null) reader.close();
    }
  }

  private final class Batches extends Files<ColumnarBatch> {
    /** Null: all rows are sought. */
    private final BasePredicate isSought = sought == null ? null : sought.compiled();
    private PeekableIntIterator dead;
    private ColumnarBatch batch;

    Batches(TxnBatch.Files partition) { super(partition); }

    @Override PartitionReader<ColumnarBatch> open(PartitionedFile file) {
      dead = deleted == null ? null : deleted.getIntIterator();
      return parquet.buildColumnarReader(file);
    }

    @Override public ColumnarBatch get() { return batch; }

    @Override boolean take(ColumnarBatch found) {
      int count = found.numRows();
      ColumnVector numbers = numbered == Numbered.BY_READER ? found.column(read.size() - 1) : new Numbers(following, null);
      following += count;
      ColumnVector[] columns = new ColumnVector[wanted.size()];
      for (int i = 0; i < columns.length; i++) columns[i] = column(wanted.fields()[i], found, numbers, count);
      batch = new ColumnarBatch(columns, count);
      int[] chosen = deleted == null || count == 0 ? null : alive(numbers, count);
      if (isSought != null) chosen = sought(batch, chosen);
      if (chosen != null) {
        for (int i = 0; i < columns.length; i++) columns[i] = new ChosenRows(columns[i], chosen);
        batch = new ColumnarBatch(columns, chosen.length);
      }
      return batch.numRows() > 0;
    }

    /** `alive`: the rows that are looked at; null: all. */
    private int[] sought(ColumnarBatch all, int[] alive) {
      int count = alive == null ? all.numRows() : alive.length, left = 0;
      int[] found = new int[count];
      for (int i = 0; i < count; i++) {
        int row = alive == null ? i : alive[i];
        if (isSought.eval(all.getRow(row))) found[left++] = row;
      }
      return Arrays.copyOf(found, left);
    }

    private ColumnVector column(StructField field, ColumnarBatch found, ColumnVector numbers, int count) {
      int value = value(field, file), from = source(field);
      if (value >= 0) return constant(field, value, count);
      if (from < read.size()) return found.column(from);
      if (from == read.size()) return new Numbers(first, numbers);
      return Metadata.vector((StructType) field.dataType(), file, numbers, count);
    }

    private ColumnVector constant(StructField field, int value, int count) {
      ConstantColumnVector found = new ConstantColumnVector(count, field.dataType());
      ColumnVectorUtils.populate(found, file.partitionValues(), value);
      return found;
    }

    /** Null: all. */
    private int[] alive(ColumnVector at, int count) {
      long low = at.getLong(0), high = at.getLong(count - 1);
      dead.advanceIfNeeded((int) low);
      if (!dead.hasNext() || dead.peekNext() > high) return null;
      int[] found = new int[count];
      int left = 0;
      if (high - low == count - 1) { // no row group was skipped within: the dead are looked at, and not each row
        int next = 0;
        for (; dead.hasNext() && dead.peekNext() <= high; next++) {
          for (int stop = dead.next() - (int) low; next < stop; next++) found[left++] = next;
        }
        for (; next < count; next++) found[left++] = next;
      } else {
        for (int i = 0; i < count; i++) if (!deleted.contains((int) at.getLong(i))) found[left++] = i;
      }
      return Arrays.copyOf(found, left);
    }
  }

  /** A row's place, and its file's metadata: behind these are the values that its file comes with. */
  private static final int BEHIND = 2;

  private final class Rows extends Files<InternalRow> {
    private UnsafeProjection whole, bare, projection;
    private final StructField metadata = metadata();
    private final boolean hasPlace = wanted.getFieldIndex(TxnTable.PLACE).isDefined();
    private GenericInternalRow behind, parts;
    private InternalRow row;

    Rows(TxnBatch.Files partition) { super(partition); }

    /** What makes of a row of the file, and of what is behind it, the row that is wanted. */
    private UnsafeProjection projection(PartitionedFile file) {
      List<Expression> found = new ArrayList<>();
      for (StructField field : wanted.fields()) {
        int value = value(field, file), from = value < 0 ? source(field) : read.size() + BEHIND + value;
        found.add(new BoundReference(from, field.dataType(), field.nullable()));
      }
      return UnsafeProjection.create(CollectionConverters.asScala(found).toSeq());
    }

    /** Null: it is not wanted. */
    private StructField metadata() {
      for (StructField field : wanted.fields()) if (source(field) > read.size()) return field;
      return null;
    }

    @Override PartitionReader<InternalRow> open(PartitionedFile file) {
      parts = metadata == null ? null : Metadata.row((StructType) metadata.dataType(), file);
      InternalRow values = file.partitionValues();
      Object[] all = new Object[BEHIND + values.numFields()];
      all[0] = first;
      all[1] = parts;
      for (int i = 0; i < values.numFields(); i++) all[BEHIND + i] = values.get(i, splitBy.apply(i).dataType());
      behind = new GenericInternalRow(all);
      if (values.numFields() > 0) projection = bare == null ? bare = projection(file) : bare;
      else projection = whole == null ? whole = projection(file) : whole;
      return parquet.buildReader(file);
    }

    @Override public InternalRow get() { return row; }

    @Override boolean take(InternalRow found) {
      long number = numbered == Numbered.BY_READER ? found.getLong(read.size() - 1) : following++;
      if (deleted != null && deleted.contains((int) number)) return false;
      if (parts != null && Metadata.numbers(metadata)) Metadata.numbered(parts, (StructType) metadata.dataType(), number);
      if (hasPlace) behind.update(0, first + number);
      row = projection.apply(new JoinedRow(found, behind));
      return true;
    }
  }
}

package txnstatus.spark;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.roaringbitmap.RoaringBitmap;

/** Writers of tasks that change rows: places of rows that die are kept, and rows that are added go to the writers of an INSERT. */
final class ChangeTaskWriters implements DeltaWriterFactory {
  private final FileTaskWriters rows;

  /** `rows`: null where none are added. */
  ChangeTaskWriters(FileTaskWriters rows) { this.rows = rows; }

  @Override public DeltaWriter<InternalRow> createWriter(int partition, long task) {
    return new Writer(rows == null ? null : rows.createWriter(partition, task));
  }

  /** Adds what a task says to the rows that die, by their files' numbers, and to the rows inserted and updated; returns what it wrote. */
  static WriterCommitMessage read(WriterCommitMessage message, Map<Integer, RoaringBitmap> dead, long[] counts) {
    Object[] told = (Object[]) FileTaskWriters.told(message);
    counts[0] += (Long) told[2];
    counts[1] += (Long) told[3];
    for (Map.Entry<?, ?> each : ((HashMap<?, ?>) told[1]).entrySet()) {
      dead.computeIfAbsent((Integer) each.getKey(), file -> new RoaringBitmap()).or(DeadRows.unpacked((byte[]) each.getValue()));
    }
    return (WriterCommitMessage) told[0];
  }

  private static final class Writer implements DeltaWriter<InternalRow> {
    private final DataWriter<InternalRow> rows;
    private final HashMap<Integer, RoaringBitmap> dead = new HashMap<>();
    private int lastFile = -1;
    private RoaringBitmap inLastFile;
    private long inserted, updated;

    Writer(DataWriter<InternalRow> rows) { this.rows = rows; }

    /** A MERGE that does nothing but delete what matches may say so several times of one row. */
    @Override public void delete(InternalRow metadata, InternalRow row) {
      long place = row.getLong(0);
      if (Places.file(place) != lastFile) {
        lastFile = Places.file(place);
        inLastFile = dead.computeIfAbsent(lastFile, each -> new RoaringBitmap());
      }
      inLastFile.add(Places.row(place));
    }

    @Override public void update(InternalRow metadata, InternalRow place, InternalRow row) throws IOException {
      delete(metadata, place);
      rows.write(row);
      updated++;
    }

    @Override public void insert(InternalRow row) throws IOException {
      rows.write(row);
      inserted++;
    }

    @Override public WriterCommitMessage commit() throws IOException {
      HashMap<Integer, byte[]> found = new HashMap<>();
      for (var each : dead.entrySet()) found.put(each.getKey(), DeadRows.packed(each.getValue()));
      return FileTaskWriters.message(new Object[] {rows == null ? null : rows.commit(), found, inserted, updated});
    }

    @Override public void abort() throws IOException { if (rows != null) rows.abort(); }
    @Override public void close() throws IOException { if (rows != null) rows.close(); }
  }
}

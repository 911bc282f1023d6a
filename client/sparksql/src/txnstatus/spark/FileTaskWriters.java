package txnstatus.spark;

import java.io.IOException;
import java.util.List;
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.ExecutedWriteSummary;
import org.apache.spark.sql.execution.datasources.WriteTaskResult;
import org.apache.spark.sql.execution.datasources.v2.FileWriterFactory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Set$;

/** Writers of tasks: Spark's own, given to each row the names of its partition, and made when there is a row. */
final class FileTaskWriters implements DataWriterFactory {
  private final FileWriterFactory files;
  private final String table;
  private final int[] places;
  private final DataType[] types;
  private final String[] names;

  FileTaskWriters(FileWriterFactory files, TxnTable of) {
    this.files = files;
    table = of.table;
    StructType rows = of.rows;
    List<String> partitionBy = of.partitionBy();
    names = partitionBy.toArray(new String[0]);
    places = partitionBy.stream().mapToInt(rows::fieldIndex).toArray();
    types = partitionBy.stream().map(each -> rows.apply(each).dataType()).toArray(DataType[]::new);
  }

  @Override public DataWriter<InternalRow> createWriter(int partition, long task) { return new Writer(partition, task); }

  /** What Spark's writer of a task has left; null: nothing. */
  static WriteTaskResult written(WriterCommitMessage message) { return (WriteTaskResult) told(message); }

  /** What a task says. */
  static Object told(WriterCommitMessage message) { return ((WriteTaskResult) message).commitMsg().obj(); }

  /**
   * What a task says, which is of Spark's and Java's own classes: those of a jar that was added to a session are others in
   * others of Spark's threads.
   */
  static WriterCommitMessage message(Object told) {
    return new WriteTaskResult(new TaskCommitMessage(told), new ExecutedWriteSummary(Set$.MODULE$.empty(), none()));
  }

  @SuppressWarnings("unchecked")
  private static <T> scala.collection.immutable.Seq<T> none() { return (scala.collection.immutable.Seq<T>) Nil$.MODULE$; }

  private final class Writer implements DataWriter<InternalRow> {
    private final int partition;
    private final long task;
    private final Object[] values = new Object[places.length];
    private final GenericInternalRow copies = new GenericInternalRow(new Object[places.length]);
    private final JoinedRow both = new JoinedRow();
    private DataWriter<InternalRow> writer;

    Writer(int partition, long task) {
      this.partition = partition;
      this.task = task;
    }

    @Override public void write(InternalRow row) throws IOException {
      boolean first = writer == null;
      if (first) writer = files.createWriter(partition, task);
      for (int i = 0; i < places.length; i++) {
        Object value = row.isNullAt(places[i]) ? null : row.get(places[i], types[i]);
        // Rows come by partition, so that names are made once for each. What Spark gives may be overwritten by the next row.
        if (first || !java.util.Objects.equals(value, values[i])) {
          values[i] = InternalRow.copyValue(value);
          copies.update(i, PartitionNames.nameOf(value, types[i], names[i], table));
        }
      }
      writer.write(places.length == 0 ? row : both.apply(row, copies));
    }

    @Override public WriterCommitMessage commit() throws IOException { return message(writer == null ? null : writer.commit()); }
    @Override public void abort() throws IOException { if (writer != null) writer.abort(); }
    @Override public void close() throws IOException { if (writer != null) writer.close(); }
  }
}

package txnstatus.spark;

import java.io.IOException;
import java.io.ObjectOutputStream;
import java.time.Duration;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Readers of what is still there: Spark sends them to its tasks anew whenever a plan runs, be it for the second time. That is when
 * Python is asked whether the plan's snapshot is kept, and its block not over. Spark writes them a hundred times for one run of a
 * plan with many stages; outside of blocks an answer holds for a moment, as tasks read for longer than that, and the first one
 * came with the files.
 */
final class AskingReaders implements PartitionReaderFactory {
  private static final Duration MOMENT = Duration.ofMillis(100);

  private final TxnReaders readers;
  private final transient TxnTable table;
  /** By System.nanoTime(). */
  private transient long told = System.nanoTime();

  AskingReaders(TxnReaders readers, TxnTable table) {
    this.readers = readers;
    this.table = table;
  }

  private synchronized void writeObject(ObjectOutputStream out) throws IOException {
    if (table != null && (table.isWithin() || System.nanoTime() - told > MOMENT.toNanos())) {
      table.bridge.call("require", Bridge.request().put("table", table.table).put("seen", table.seen.id));
      told = System.nanoTime();
    }
    out.defaultWriteObject();
  }

  @Override public boolean supportColumnarReads(InputPartition partition) { return readers.supportColumnarReads(partition); }
  @Override public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) { return readers.createColumnarReader(partition); }
  @Override public PartitionReader<InternalRow> createReader(InputPartition partition) { return readers.createReader(partition); }
}

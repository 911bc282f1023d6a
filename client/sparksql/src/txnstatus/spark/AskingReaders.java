package txnstatus.spark;

import java.io.IOException;
import java.io.ObjectOutputStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Readers of what is still there: Spark sends them to its tasks anew whenever a plan runs, be it for the second time. That is when
 * Python is asked whether the plan's snapshot is kept, and its block not over. Outside of blocks the first run need not ask: its
 * files were told just now.
 */
final class AskingReaders implements PartitionReaderFactory {
  private final TxnReaders readers;
  private final transient TxnTable table;
  private transient boolean isAsking;

  AskingReaders(TxnReaders readers, TxnTable table) {
    this.readers = readers;
    this.table = table;
    this.isAsking = table.isWithin();
  }

  private synchronized void writeObject(ObjectOutputStream out) throws IOException {
    if (table != null && isAsking) table.bridge.call("require", Bridge.request().put("table", table.table).put("seen", table.seen.id));
    isAsking = true;
    out.defaultWriteObject();
  }

  @Override public boolean supportColumnarReads(InputPartition partition) { return readers.supportColumnarReads(partition); }
  @Override public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) { return readers.createColumnarReader(partition); }
  @Override public PartitionReader<InternalRow> createReader(InputPartition partition) { return readers.createReader(partition); }
}

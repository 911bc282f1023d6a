package txnstatus.spark;

import java.io.IOException;
import java.io.ObjectOutputStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Readers of what a transaction sees, which nobody reads once its block has ended. Spark sends them to its tasks anew whenever a
 * plan runs, be it for the second time: that is when Python is asked.
 */
final class ReadersWithin implements PartitionReaderFactory {
  private final TxnReaders readers;
  private final transient TxnTable table;

  ReadersWithin(TxnReaders readers, TxnTable table) {
    this.readers = readers;
    this.table = table;
  }

  private void writeObject(ObjectOutputStream out) throws IOException {
    if (table != null) table.bridge.call("require", Bridge.request().put("seen", table.seen.id));
    out.defaultWriteObject();
  }

  @Override public boolean supportColumnarReads(InputPartition partition) { return readers.supportColumnarReads(partition); }
  @Override public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) { return readers.createColumnarReader(partition); }
  @Override public PartitionReader<InternalRow> createReader(InputPartition partition) { return readers.createReader(partition); }
}

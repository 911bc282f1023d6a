package txnstatus.spark;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.Iterator;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Rows that came with the plan, as a stream of Arrow's that has all columns and the places. */
final class LooseReader implements PartitionReader<ColumnarBatch> {
  private final BufferAllocator memory;
  private final ArrowStreamReader stream;
  private final StructType wanted;
  private ColumnarBatch batch;

  LooseReader(byte[] bytes, StructType wanted) {
    this.wanted = wanted;
    memory = ArrowUtils.rootAllocator().newChildAllocator("txnstatus", 0, Long.MAX_VALUE);
    stream = new ArrowStreamReader(new ByteArrayInputStream(bytes), memory);
  }

  @Override public boolean next() throws IOException {
    if (!stream.loadNextBatch()) return false;
    var root = stream.getVectorSchemaRoot();
    ColumnVector[] columns = new ColumnVector[wanted.size()];
    for (int i = 0; i < columns.length; i++) columns[i] = column(root, wanted.fields()[i]);
    batch = new ColumnarBatch(columns, root.getRowCount());
    return true;
  }

  private static ColumnVector column(VectorSchemaRoot root, StructField wanted) {
    FieldVector found = root.getVector(wanted.name());
    return found == null ? Metadata.none(wanted, root.getRowCount()) : new ArrowColumnVector(found);
  }

  @Override public ColumnarBatch get() { return batch; }

  @Override public void close() throws IOException {
    stream.close();
    memory.close();
  }

  static PartitionReader<InternalRow> byRow(byte[] bytes, StructType wanted) {
    LooseReader batches = new LooseReader(bytes, wanted);
    return new PartitionReader<>() {
      private Iterator<InternalRow> rows = java.util.Collections.emptyIterator();

      @Override public boolean next() throws IOException {
        while (!rows.hasNext()) {
          if (!batches.next()) return false;
          rows = batches.get().rowIterator();
        }
        return true;
      }

      @Override public InternalRow get() { return rows.next(); }
      @Override public void close() throws IOException { batches.close(); }
    };
  }
}

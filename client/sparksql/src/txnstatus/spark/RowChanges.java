package txnstatus.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.roaringbitmap.RoaringBitmap;

/**
 * DELETE, UPDATE and MERGE: Spark finds the rows and makes the new ones. Those that die are known by their places, and what
 * comes in their place is written as the rows of an INSERT are; Python commits both at once.
 */
record RowChanges(TxnTable table, RowLevelOperation.Command command) implements RowLevelOperation, SupportsDelta {
  @Override public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return table.newScanBuilder(options); }

  @Override public NamedReference[] rowId() { return places(); }

  static NamedReference[] places() {
    return new NamedReference[] {Expressions.column(TxnTable.PLACE)};
  }

  @Override public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    boolean adds = info.schema().size() > 0;
    return new DeltaWriteBuilder() {
      @Override public DeltaWrite build() { return new Planned(table, command, adds); }
    };
  }

  /** `adds`: whether there are rows to be written. */
  private record Planned(TxnTable table, Command command, boolean adds) implements DeltaWrite, RequiresDistributionAndOrdering {
    @Override public DeltaBatchWrite toBatch() {
      return new Changing(table.seen.places, new TxnWrite(table, Bridge.request().put("mode", command.name().toLowerCase(java.util.Locale.ROOT))), adds);
    }

    @Override public String description() { return command + " by places of rows"; }
    @Override public String toString() { return description(); }

    @Override public Distribution requiredDistribution() { return Distributions.unspecified(); }
    @Override public SortOrder[] requiredOrdering() { return adds ? TxnWrite.byPartition(table) : new SortOrder[0]; }
  }

  /** What tasks say of rows at these places, as Python takes it; what they have written is put into `written`. */
  static ObjectNode told(WriterCommitMessage[] messages, Places places, WriterCommitMessage[] written) {
    Map<Integer, RoaringBitmap> dead = new HashMap<>();
    long[] counts = new long[2];
    for (int i = 0; i < messages.length; i++) written[i] = ChangeTaskWriters.read(messages[i], dead, counts);
    ObjectNode found = Bridge.request().put("inserted", counts[0]).put("updated", counts[1]);
    ObjectNode packed = found.putObject("dead");
    try {
      for (var each : dead.entrySet()) {
        packed.put(places.file(each.getKey()), Base64.getEncoder().encodeToString(DeadRows.packed(each.getValue())));
      }
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
    return found;
  }

  /** A statement that runs; `rows` writes what it adds, if it adds any, and has its transaction. */
  private record Changing(Places places, TxnWrite rows, boolean adds) implements DeltaBatchWrite {
    @Override public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
      if (adds) return new ChangeTaskWriters(rows.createBatchWriterFactory(info));
      rows.begin(TxnScan.session());
      return new ChangeTaskWriters(null);
    }

    @Override public boolean useCommitCoordinator() { return rows.useCommitCoordinator(); }

    @Override public void commit(WriterCommitMessage[] messages) {
      WriterCommitMessage[] written = new WriterCommitMessage[messages.length];
      ObjectNode request = Bridge.request();
      request.set("changes", told(messages, places, written));
      rows.commit(written, request);
    }

    @Override public void abort(WriterCommitMessage[] messages) { rows.abort(messages); }
  }
}

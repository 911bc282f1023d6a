package txnstatus.spark;

import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/**
 * A table that one statement makes and fills, or fills anew. One that was there stays as it is until a transaction has all rows
 * of the new one; one that was not there is made beforehand, and goes again where the statement fails.
 */
final class Staged implements StagedTable, SupportsWrite {
  /** That of the statement which a thread runs. */
  private static final ThreadLocal<Staged> running = new ThreadLocal<>();

  private final TxnTable table;
  private final boolean isNew;
  private final Set<String> read = new LinkedHashSet<>();
  private boolean isWritten;

  Staged(TxnTable table, boolean isNew) {
    this.table = table;
    this.isNew = isNew;
    running.set(this);
  }

  /** A scan is planned: what a statement overwrites is what it has read, unless it has chosen another time. */
  static void scans(TxnTable scanned) {
    Staged now = running.get();
    if (now != null && !scanned.seen.isChosen && scanned.bridge == now.table.bridge && scanned.table.equals(now.table.table)) {
      now.read.add(scanned.seen.id);
    }
  }

  @Override public String name() { return table.name(); }
  @Override public Column[] columns() { return table.columns(); }
  @Override public StructType schema() { return table.schema(); }
  @Override public Transform[] partitioning() { return table.partitioning(); }
  @Override public Map<String, String> properties() { return table.properties(); }
  @Override public Set<TableCapability> capabilities() { return table.capabilities(); }

  @Override public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    Options.checkOfWrite(info.options(), table.name());
    isWritten = true;
    return new TxnWrite.Builder(table) {
      @Override public Write build() {
        truncate();
        read.forEach(mode.putArray("read")::add);
        return super.build();
      }
    };
  }

  @Override public void commitStagedChanges() {
    running.remove();
    if (!isNew && !isWritten) table.truncateTable();
  }

  @Override public void abortStagedChanges() {
    running.remove();
    if (isNew) table.bridge.call("unmake", Bridge.request().put("table", table.table).put("id", table.id()));
  }
}

package txnstatus.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
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
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The rows for which the condition of an overwrite holds. What Spark hands over of it are filters, which do not say all that it
 * does: so Spark runs a DELETE by the condition itself, of what the statement has read, which tells the rows and does nothing else.
 */
final class RowsReplaced implements SupportsRead, SupportsWrite, SupportsRowLevelOperations, SupportsMetadataColumns {
  private final TxnTable table;
  private ObjectNode found;

  private RowsReplaced(TxnTable table) { this.table = table; }

  /** As the tasks of a DELETE tell them. */
  static ObjectNode of(TxnTable table, SparkSession spark) {
    QueryExecution running = InsertingMerge.running(spark);
    OverwriteByExpression statement = running == null ? null : overwriting(running.optimizedPlan(), table);
    if (statement == null) throw new IllegalStateException("the condition by which " + table.name() + " is overwritten is not known");
    RowsReplaced asked = new RowsReplaced(table);
    // What else a relation is made of depends on the release of Spark.
    Object[] parts = CollectionConverters.asJavaCollection(((DataSourceV2Relation) statement.table()).productIterator().toSeq()).toArray();
    parts[0] = asked;
    Dataset.ofRows(spark, new DeleteFromTable(((LogicalPlan) statement.table()).makeCopy(parts), statement.deleteExpr()));
    if (asked.found == null) throw new IllegalStateException("Spark has not run the DELETE: " + statement.deleteExpr().sql());
    return asked.found;
  }

  private static OverwriteByExpression overwriting(LogicalPlan plan, TxnTable table) {
    if (plan instanceof OverwriteByExpression is && is.table() instanceof DataSourceV2Relation there && there.table() == table) return is;
    for (LogicalPlan each : CollectionConverters.asJava(plan.children())) {
      OverwriteByExpression found = overwriting(each, table);
      if (found != null) return found;
    }
    return null;
  }

  // ---- the table of that DELETE

  @Override public String name() { return table.name(); }
  @Override public Column[] columns() { return table.columns(); }
  @Override public StructType schema() { return table.schema(); }
  @Override public Map<String, String> properties() { return table.properties(); }
  @Override public Set<TableCapability> capabilities() { return table.capabilities(); }
  @Override public MetadataColumn[] metadataColumns() { return table.metadataColumns(); }
  @Override public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return table.newScanBuilder(options); }
  @Override public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { throw new UnsupportedOperationException(name() + " is only read"); }
  @Override public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) { return Finding::new; }

  private final class Finding implements RowLevelOperation, SupportsDelta {
    @Override public Command command() { return Command.DELETE; }
    @Override public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return table.newScanBuilder(options); }
    @Override public NamedReference[] rowId() { return RowChanges.places(); }

    @Override public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return new DeltaWriteBuilder() {
        @Override public DeltaWrite build() { return new Found(); }
      };
    }
  }

  private final class Found implements DeltaWrite, DeltaBatchWrite, RequiresDistributionAndOrdering {
    @Override public DeltaBatchWrite toBatch() { return this; }
    @Override public String description() { return "rows that are replaced"; }
    @Override public String toString() { return description(); }
    @Override public Distribution requiredDistribution() { return Distributions.unspecified(); }
    @Override public SortOrder[] requiredOrdering() { return new SortOrder[0]; }
    @Override public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) { return new ChangeTaskWriters(null); }
    @Override public void commit(WriterCommitMessage[] messages) {
      found = RowChanges.told(messages, table.seen.places, new WriterCommitMessage[messages.length]);
      found.remove("inserted"); // that is all that comes in their place
    }
    @Override public void abort(WriterCommitMessage[] messages) {}
  }
}

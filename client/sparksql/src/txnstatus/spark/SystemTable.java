package txnstatus.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.Base64;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** What the cluster knows of itself: Python says which rows there are, whenever a plan runs for the first time. */
final class SystemTable implements SupportsRead {
  private final String catalog, name;
  private final JsonNode told;
  private final Column[] columns;
  private final StructType rows;
  private final Bridge bridge;

  /** Raises PythonError where there is none of that name. */
  SystemTable(String catalog, String name, Bridge bridge) {
    this.catalog = catalog;
    this.name = name;
    this.bridge = bridge;
    this.told = bridge.call("system table", Bridge.request().put("table", name));
    this.columns = TxnTable.columns(told);
    this.rows = TxnTable.rows(columns);
  }

  @Override public String name() { return catalog + "." + TxnCatalog.SYSTEM + "." + name; }
  @Override public Column[] columns() { return columns; }
  @Override public StructType schema() { return rows; } // Spark 4.0 asks for no columns
  @Override public Map<String, String> properties() { return Map.of("comment", told.get("comment").asText()); }
  @Override public Set<TableCapability> capabilities() { return EnumSet.of(TableCapability.BATCH_READ); }
  @Override public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return new Builder(); }

  private final class Builder implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownV2Filters {
    private StructType wanted = rows;
    private Predicate[] pushed = {};

    /** Columns come with all their parts, in order, whichever of them are wanted. */
    @Override public void pruneColumns(StructType required) {
      wanted = new StructType();
      for (String each : required.fieldNames()) wanted = wanted.add(rows.apply(each));
    }

    /** Less is looked at by them; whether a row is wanted, Spark itself looks at. */
    @Override public Predicate[] pushPredicates(Predicate[] all) {
      Pushed taken = new Pushed(rows);
      pushed = Arrays.stream(all).filter(each -> taken.filter(each) != null).toArray(Predicate[]::new);
      return all;
    }

    @Override public Predicate[] pushedPredicates() { return pushed; }
    @Override public Scan build() { return new Rows(wanted, new Pushed(rows).filters(pushed)); }
  }

  private final class Rows implements Scan, Batch {
    private final StructType wanted;
    private final Filter[] filters;

    Rows(StructType wanted, Filter[] filters) {
      this.wanted = wanted;
      this.filters = filters;
    }

    @Override public StructType readSchema() { return wanted; }
    @Override public String description() { return name() + ", filters: " + Arrays.toString(filters); }
    @Override public Batch toBatch() { return this; }
    @Override public ColumnarSupportMode columnarSupportMode() { return ColumnarSupportMode.SUPPORTED; }

    @Override public InputPartition[] planInputPartitions() {
      ObjectNode request = Bridge.request().put("table", name);
      ArrayNode names = request.putArray("columns");
      for (String each : wanted.fieldNames()) names.add(each);
      request.set("filters", Filters.told(rows, filters));
      byte[] stream = Base64.getDecoder().decode(bridge.call("system rows", request).asText());
      return new InputPartition[] {new TxnBatch.LooseRows(stream)};
    }

    @Override public PartitionReaderFactory createReaderFactory() { return new Readers(wanted); }
  }

  private record Readers(StructType wanted) implements PartitionReaderFactory {
    @Override public boolean supportColumnarReads(InputPartition partition) { return true; }

    @Override public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
      return new LooseReader(((TxnBatch.LooseRows) partition).stream(), wanted);
    }

    @Override public PartitionReader<InternalRow> createReader(InputPartition partition) {
      return LooseReader.byRow(((TxnBatch.LooseRows) partition).stream(), wanted);
    }
  }
}

package txnstatus.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.StreamSupport;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsAtomicPartitionManagement;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table at one snapshot. */
final class TxnTable implements SupportsRead, SupportsWrite, SupportsRowLevelOperations, SupportsMetadataColumns, TruncatableTable,
    SupportsAtomicPartitionManagement {
  /** Where a row lies, as a number: see Places. */
  static final String PLACE = "_txn_place";

  final String table;
  final Seen seen;
  final Bridge bridge;
  final StructType rows;
  final InFiles inFiles;
  /** Columns that are no nulls in files which do not have them. */
  final Set<String> filled = new HashSet<>();
  /** Columns of which files may have fewer values, or structs with fewer fields. */
  final Set<String> widened = new HashSet<>();
  private final String name;
  private final JsonNode told;
  private final Column[] columns;

  TxnTable(String catalog, String table, JsonNode told, Seen seen, Bridge bridge) {
    this.name = catalog + "." + table;
    this.table = table;
    this.seen = seen;
    this.bridge = bridge;
    this.told = told;
    this.columns = columns(told);
    this.rows = rows(columns);
    this.inFiles = InFiles.of(told.get("columns"));
    for (JsonNode each : told.get("columns")) if (each.path("initial").isTextual()) filled.add(each.get("name").asText());
    for (JsonNode each : told.get("columns")) if (each.path("widened").asBoolean()) widened.add(each.get("name").asText());
  }

  static Column[] columns(JsonNode told) {
    return StreamSupport.stream(told.get("columns").spliterator(), false).map(TxnTable::column).toArray(Column[]::new);
  }

  static StructType rows(Column... columns) {
    StructType found = new StructType();
    for (Column each : columns) found = found.add(each.name(), each.dataType(), each.nullable());
    return found;
  }

  /** What Spark's readers are told of a column beside its type, whichever plan it comes from: its value in files without it. */
  org.apache.spark.sql.types.Metadata told(StructField field) {
    for (Column each : columns) {
      if (each.name().equals(field.name()) && each.defaultValue() != null) {
        return CatalogV2Util.v2ColumnsToStructType(new Column[] {each}).apply(0).metadata();
      }
    }
    return field.metadata();
  }

  private static Column column(JsonNode told) {
    String comment = told.get("comment").asText();
    DataType type = DataType.fromDDL(told.get("type").asText());
    return Column.create(told.get("name").asText(), type, told.get("nullable").asBoolean(), comment.isEmpty() ? null : comment,
        Defaults.of(told, type), null);
  }

  @Override public String name() { return name; }
  @Override public String id() { return told.get("id").asText(); }
  @Override public Column[] columns() { return columns; }

  @Override public StructType schema() { // Spark 4.0 asks for no columns
    StructType described = new StructType();
    for (Column each : columns) {
      boolean told = each.comment() != null;
      described = told ? described.add(each.name(), each.dataType(), each.nullable(), each.comment())
          : described.add(each.name(), each.dataType(), each.nullable());
    }
    return described;
  }

  /** Whether it is seen within a transaction that has a block of statements. */
  boolean isWithin() { return told.get("within").asBoolean(); }

  /** Whether it is where Spark has no file system: Python reads and writes it. */
  boolean isFar() { return told.get("far").asBoolean(); }

  List<String> partitionBy() {
    return StreamSupport.stream(told.get("partition_by").spliterator(), false).map(JsonNode::asText).toList();
  }

  /** The columns that it is partitioned by. */
  StructType splitBy() {
    StructType found = new StructType();
    for (String each : partitionBy()) found = found.add(rows.apply(each));
    return found;
  }

  @Override public Transform[] partitioning() {
    return partitionBy().stream().map(each -> Expressions.identity("`" + each.replace("`", "``") + "`")).toArray(Transform[]::new);
  }

  @Override public Map<String, String> properties() {
    Map<String, String> found = new LinkedHashMap<>();
    told.get("properties").properties().forEach(each -> found.put(each.getKey(), each.getValue().asText()));
    return found;
  }

  @Override public Set<TableCapability> capabilities() {
    // What is read as of a time that somebody chose is not written to.
    if (seen.isChosen) return EnumSet.of(TableCapability.BATCH_READ);
    Set<TableCapability> found = EnumSet.of(TableCapability.BATCH_READ, TableCapability.BATCH_WRITE, TableCapability.TRUNCATE,
        TableCapability.OVERWRITE_BY_FILTER, TableCapability.OVERWRITE_DYNAMIC);
    if (isFar()) found.add(TableCapability.V1_BATCH_WRITE); // what Spark asks for of both is refused by name
    // Spark 4.0 has no such capability, and passes over WITH SCHEMA EVOLUTION.
    for (TableCapability each : TableCapability.values()) if (each.name().equals("AUTOMATIC_SCHEMA_EVOLUTION")) found.add(each);
    return found;
  }

  @Override public MetadataColumn[] metadataColumns() {
    return new MetadataColumn[] {
        metadata(PLACE, DataTypes.LongType, false), metadata(Metadata.NAME, Metadata.TYPE, true)};
  }

  private static MetadataColumn metadata(String name, DataType type, boolean nullable) {
    return new MetadataColumn() {
      @Override public String name() { return name; }
      @Override public DataType dataType() { return type; }
      @Override public boolean isNullable() { return nullable; }
    };
  }

  @Override public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    Options.checkOfRead(options, name);
    return new TxnScan.Builder(this);
  }

  @Override public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    Options.checkOfWrite(info.options(), name);
    return new TxnWrite.Builder(this);
  }

  @Override public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    return () -> new RowChanges(this, info.command());
  }

  @Override public boolean truncateTable() {
    bridge.call("truncate", Bridge.request().put("table", table).put("seen", seen.id));
    return true;
  }

  // ---- partitions: there are those in which there are rows

  @Override public StructType partitionSchema() {
    StructType found = new StructType();
    for (String each : partitionBy()) found = found.add(rows.apply(each));
    return found;
  }

  @Override public InternalRow[] listPartitionIdentifiers(String[] names, InternalRow values) {
    StructType all = partitionSchema(), asked = new StructType();
    for (String each : names) asked = asked.add(all.apply(each));
    List<String> wanted = parts(asked, values);
    List<InternalRow> found = new ArrayList<>();
    for (JsonNode each : bridge.call("partitions", Bridge.request().put("table", table).put("seen", seen.id))) {
      Object[] row = new Object[all.size()];
      for (int at = 0; at < row.length; at++) row[at] = PartitionNames.valueOf(each.get(at), all.apply(at).dataType());
      InternalRow there = new GenericInternalRow(row);
      if (parts(all, there).containsAll(wanted)) found.add(there);
    }
    return found.toArray(new InternalRow[0]);
  }

  /** What a partition's name is made of. */
  private List<String> parts(StructType columns, InternalRow values) {
    List<String> found = new ArrayList<>();
    for (int at = 0; at < columns.size(); at++) {
      String column = columns.apply(at).name();
      DataType type = columns.apply(at).dataType();
      found.add(column + "=" + PartitionNames.nameOf(values.isNullAt(at) ? null : values.get(at, type), type, column, table));
    }
    return found;
  }

  @Override public boolean truncatePartitions(InternalRow[] all) {
    ObjectNode request = Bridge.request().put("table", table).put("seen", seen.id);
    ArrayNode names = request.putArray("partitions"); // none is not all of them
    for (InternalRow each : all) names.add(String.join("/", parts(partitionSchema(), each)));
    bridge.call("truncate", request);
    return true;
  }

  @Override public boolean truncatePartition(InternalRow one) { return truncatePartitions(new InternalRow[] {one}); }
  @Override public boolean dropPartitions(InternalRow[] all) { return truncatePartitions(all); }
  @Override public boolean purgePartition(InternalRow one) { throw refused("DROP PARTITION ... PURGE", "leave PURGE away"); }
  @Override public boolean purgePartitions(InternalRow[] all) { return purgePartition(all[0]); }

  @Override public void createPartitions(InternalRow[] all, Map<String, String>[] properties) {
    throw refused("ADD PARTITION", "a partition is there where it has rows");
  }

  @Override public boolean renamePartition(InternalRow from, InternalRow to) {
    throw refused("RENAME PARTITION", "UPDATE sets columns of the partition, too");
  }

  @Override public Map<String, String> loadPartitionMetadata(InternalRow one) { return Map.of(); }

  @Override public void replacePartitionMetadata(InternalRow one, Map<String, String> properties) {
    throw refused("PARTITION ... SET", "a partition has no properties");
  }

  private UnsupportedOperationException refused(String what, String instead) {
    return new UnsupportedOperationException("ALTER TABLE " + name + " ... " + what + " is not possible: " + instead);
  }
}

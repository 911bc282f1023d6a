package txnstatus.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.OptionalLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetOptions;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetPartitionReaderFactory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.reflect.ClassTag$;

/** Spark's own Parquet reader over the files of a snapshot that Python names, and rows beside them that are in no file. */
final class TxnScan implements Scan, Batch, SupportsReportStatistics {
  /** A column of this name Spark's reader fills with the numbers of rows in their files. */
  static final String ROW_INDEX = "_tmp_metadata_row_index";

  private final TxnTable table;
  private final StructType wanted;
  private final Filter[] filters;
  private JsonNode told;

  private TxnScan(TxnTable table, StructType wanted, Filter[] filters) {
    this.table = table;
    this.wanted = wanted;
    this.filters = filters;
  }

  static final class Builder implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownFilters {
    private final TxnTable table;
    private StructType wanted;
    private Filter[] filters = {};

    Builder(TxnTable table) {
      this.table = table;
      this.wanted = table.rows;
    }

    @Override public void pruneColumns(StructType required) { wanted = required; }

    /** Row groups are skipped by them; whether a row is wanted, Spark itself looks at. */
    @Override public Filter[] pushFilters(Filter[] all) {
      List<String> columns = Arrays.asList(table.rows.fieldNames());
      filters = Arrays.stream(all).filter(each -> columns.containsAll(Arrays.asList(each.references()))).toArray(Filter[]::new);
      return all;
    }

    @Override public Filter[] pushedFilters() { return filters; }
    @Override public Scan build() { return new TxnScan(table, wanted, filters); }
  }

  @Override public StructType readSchema() { return wanted; }
  @Override public Batch toBatch() { return this; }
  @Override public String description() { return table.name() + ", filters: " + Arrays.toString(filters); }

  /** Spark reads once what it finds twice in a plan. */
  @Override public boolean equals(Object other) {
    return other instanceof TxnScan that && that.table.table.equals(table.table) && that.table.seen == table.seen
        && that.wanted.equals(wanted) && Arrays.equals(that.filters, filters);
  }

  @Override public int hashCode() { return 31 * table.table.hashCode() + wanted.hashCode(); }

  private synchronized JsonNode told() {
    if (told == null) told = table.bridge.call("scan", Bridge.request().put("table", table.table).put("seen", table.seen.id));
    return told;
  }

  @Override public Statistics estimateStatistics() {
    JsonNode found = told();
    return new Statistics() {
      @Override public OptionalLong sizeInBytes() {
        // What is not read does not count: Spark would not send a narrow part of a wide table around.
        long all = Math.max(1, table.rows.defaultSize()), part = Math.max(1, wanted.defaultSize());
        return OptionalLong.of((long) (found.get("bytes").asDouble() * Math.min(1.0, (double) part / all)));
      }
      @Override public OptionalLong numRows() { return OptionalLong.of(found.get("rows").asLong()); }
    };
  }

  // ---- pieces for tasks

  @Override public InputPartition[] planInputPartitions() {
    SQLConf conf = session().sessionState().conf();
    long open = conf.filesOpenCostInBytes(), total = 0;
    for (JsonNode file : told().get("files")) total += file.get("bytes").asLong() + open;
    int cores = session().sparkContext().defaultParallelism();
    long most = Math.min(conf.filesMaxPartitionBytes(), Math.max(open, total / Math.max(1, cores)));
    List<PartitionedFile> pieces = new ArrayList<>();
    for (JsonNode file : told().get("files")) {
      long length = file.get("bytes").asLong();
      for (long at = 0; at < length; at += most) pieces.add(piece(file.get("path").asText(), at, Math.min(most, length - at), length));
    }
    pieces.sort(Comparator.comparingLong(PartitionedFile::length).reversed());
    List<InputPartition> found = packed(pieces, most, open);
    if (told().hasNonNull("loose")) found.add(new LooseRows(Base64.getDecoder().decode(told().get("loose").asText())));
    return found.toArray(new InputPartition[0]);
  }

  private static PartitionedFile piece(String uri, long start, long length, long size) {
    return new PartitionedFile(InternalRow.empty(), SparkPath.fromUrlString(uri), start, length, new String[0], 0L, size, Map$.MODULE$.empty());
  }

  private static List<InputPartition> packed(List<PartitionedFile> pieces, long most, long open) {
    List<InputPartition> found = new ArrayList<>();
    List<PartitionedFile> now = new ArrayList<>();
    long size = 0;
    for (PartitionedFile each : pieces) {
      if (!now.isEmpty() && size + each.length() > most) {
        found.add(new FilePartition(found.size(), now.toArray(new PartitionedFile[0])));
        now.clear();
        size = 0;
      }
      now.add(each);
      size += each.length() + open;
    }
    if (!now.isEmpty()) found.add(new FilePartition(found.size(), now.toArray(new PartitionedFile[0])));
    return found;
  }

  /** Rows that are in no file of the table, as a stream of Arrow's: they were changed by their keys of late. */
  record LooseRows(byte[] stream) implements InputPartition {}

  // ---- their readers

  @Override public PartitionReaderFactory createReaderFactory() {
    HashMap<String, byte[]> dead = new HashMap<>();
    for (JsonNode file : told().get("files")) {
      if (file.hasNonNull("dead")) dead.put(file.get("path").asText(), Base64.getDecoder().decode(file.get("dead").asText()));
    }
    StructType read = new StructType();
    for (StructField each : wanted.fields()) if (!isPlace(each)) read = read.add(each);
    if (!dead.isEmpty() || Arrays.stream(wanted.fields()).anyMatch(each -> each.name().equals(TxnTable.ROW))) {
      read = read.add(ROW_INDEX, DataTypes.LongType, true);
    }
    Broadcast<HashMap<String, byte[]>> spread = context().broadcast(dead, ClassTag$.MODULE$.apply(HashMap.class));
    return new TxnReaders(parquet(read), read, wanted, spread);
  }

  static boolean isPlace(StructField field) { return field.name().equals(TxnTable.FILE) || field.name().equals(TxnTable.ROW); }

  private ParquetPartitionReaderFactory parquet(StructType read) {
    SQLConf conf = session().sessionState().conf();
    // Whatever the session says, no date is another one.
    scala.collection.immutable.Map<String, String> options = new scala.collection.immutable.Map.Map1<>("datetimeRebaseMode", "CORRECTED");
    Broadcast<SerializableConfiguration> hadoop = context().broadcast(
        new SerializableConfiguration(settings(read, conf)), ClassTag$.MODULE$.apply(SerializableConfiguration.class));
    StructType all = table.rows.add(ROW_INDEX, DataTypes.LongType, true);
    return new ParquetPartitionReaderFactory(conf, hadoop, all, read, new StructType(), filters, Option.empty(), new ParquetOptions(options, conf));
  }

  /** What Spark's own scan of Parquet sets before it makes such a factory. */
  private Configuration settings(StructType read, SQLConf conf) {
    Configuration found = session().sessionState().newHadoopConfWithOptions(Map$.MODULE$.empty());
    found.set("parquet.read.support.class", "org.apache.spark.sql.execution.datasources.parquet.ParquetReadSupport");
    found.set("org.apache.spark.sql.parquet.row.requested_schema", read.json());
    found.set("org.apache.spark.sql.parquet.row.attributes", read.json());
    found.set("spark.sql.session.timeZone", conf.sessionLocalTimeZone());
    found.setBoolean("spark.sql.optimizer.nestedSchemaPruning.enabled", false);
    found.setBoolean("spark.sql.caseSensitive", true);
    found.setBoolean("spark.sql.parquet.binaryAsString", false);
    found.setBoolean("spark.sql.parquet.int96AsTimestamp", true);
    found.setBoolean("spark.sql.parquet.inferTimestampNTZ.enabled", true);
    found.setBoolean("spark.sql.legacy.parquet.nanosAsLong", false);
    found.setBoolean("parquet.page.verify-checksum.enabled", true);
    return found;
  }

  private static SparkSession session() { return (SparkSession) org.apache.spark.sql.SparkSession.active(); }
  private static SparkContext context() { return session().sparkContext(); }
}

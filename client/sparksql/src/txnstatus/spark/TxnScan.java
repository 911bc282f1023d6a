package txnstatus.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.stream.StreamSupport;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.execution.datasources.parquet.ParquetOptions;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetPartitionReaderFactory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.reflect.ClassTag$;
import txnstatus.spark.TxnReaders.Numbered;

/** Spark's own Parquet reader over the files of a snapshot that Python names, and rows beside them that are in no file. */
final class TxnScan implements Scan, SupportsReportStatistics, SupportsRuntimeV2Filtering {
  /** A column of this name Spark's reader fills with the numbers of rows in their files. */
  static final String ROW_INDEX = "_tmp_metadata_row_index";
  /** What Spark reckons for a row beside its columns. */
  private static final int ROW_BYTES = 8;

  final TxnTable table;
  private final StructType wanted;
  private final Filter[] filters;
  private final int limit;
  /** For what rows are looked at within the scan; null: for nothing. */
  private final SoughtRows.Condition sought;
  private final TxnBatch all = new TxnBatch(this);
  /** The batch that was planned last, whose files the plan's metrics tell. */
  volatile TxnBatch planned = all;
  /** What a run of Spark has found since it was planned, for the batch that it asks for next: plans may share a scan. */
  private final ThreadLocal<Filter[]> found = new ThreadLocal<>();
  private JsonNode told;
  private NamedReference[] dividing;
  private TxnReaders readers;

  /** The session that plans it: as it runs, another one may be the thread's active one. */
  final SparkSession planner = session();

  private TxnScan(TxnTable table, StructType wanted, Filter[] filters, int limit, SoughtRows.Condition sought) {
    this.table = table;
    this.wanted = wanted;
    this.filters = filters;
    this.limit = limit;
    this.sought = sought;
  }

  /** The same scan, but that its batches are of rows for which the condition holds; at others Spark itself looks. */
  TxnScan seeking(SoughtRows.Condition condition) {
    TxnScan found = new TxnScan(table, wanted, filters, limit, condition);
    found.told = told();
    return found;
  }

  /** Whether it is for rows that are to be changed, and no condition is known to it yet. */
  boolean maySeek() { return readsPlaces() && sought == null; }

  static final class Builder implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownV2Filters, SupportsPushDownLimit,
      SupportsPushDownAggregates {
    private static final int ALL = -1;

    private final TxnTable table;
    private StructType wanted;
    private Predicate[] pushed = {};
    private Filter[] filters = {};
    private int limit = ALL, counts;

    Builder(TxnTable table) {
      this.table = table;
      this.wanted = table.rows;
    }

    /**
     * A column with structs that have more fields than files from before comes whole: where a file has none of the fields that are read
     * of a struct, releases of Spark differ in whether it is a null.
     */
    @Override public void pruneColumns(StructType required) {
      wanted = new StructType();
      for (StructField each : required.fields()) wanted = wanted.add(table.widened.contains(each.name()) ? table.rows.apply(each.name()) : each);
    }

    /** Files and row groups are skipped by them; whether a row is wanted, Spark itself looks at. */
    @Override public Predicate[] pushPredicates(Predicate[] all) {
      Pushed taken = new Pushed(table.rows);
      pushed = Arrays.stream(all).filter(each -> taken.filter(each) != null).toArray(Predicate[]::new);
      filters = taken.filters(pushed);
      return all;
    }

    @Override public Predicate[] pushedPredicates() { return pushed; }

    /** Spark asks where there is no filter; it looks at how many rows it gets, which are those of enough files. */
    @Override public boolean pushLimit(int rows) {
      limit = rows;
      return true;
    }

    @Override public boolean isPartiallyPushed() { return true; }
    @Override public boolean supportCompletePushDown(Aggregation aggregation) { return Counted.isAll(aggregation); }

    /** Spark asks where there is no filter. */
    @Override public boolean pushAggregation(Aggregation aggregation) {
      if (filters.length > 0 || !Counted.isAll(aggregation)) return false;
      counts = aggregation.aggregateExpressions().length;
      return true;
    }

    @Override public Scan build() {
      Staged.scans(table);
      TxnScan scan = new TxnScan(table, wanted, filters, limit, null);
      // Rows that come with the plan have all parts of their columns, in order.
      StructType whole = whole();
      if (!whole.equals(wanted) && scan.told().get("loose").asLong() > 0) scan = new TxnScan(table, whole, filters, limit, null);
      if (table.isFar() && scan.readsPlaces()) table.bridge.call("far", Bridge.request().put("table", table.table));
      if (counts > 0) return new Counted(table.name(), scan.told().get("rows").asLong(), counts);
      return table.isFar() ? new FarScan(whole.equals(wanted) ? scan : new TxnScan(table, whole, filters, limit, null)) : scan;
    }

    /** The columns that are wanted, with all parts of those of which only some are. */
    private StructType whole() {
      StructType found = new StructType();
      for (StructField each : wanted.fields()) found = found.add(table.rows.getFieldIndex(each.name()).isEmpty() ? each : table.rows.apply(each.name()));
      return found;
    }
  }

  @Override public StructType readSchema() { return wanted; }

  @Override public String description() {
    return table.name() + ", filters: " + Arrays.toString(filters) + (limit == Builder.ALL ? "" : ", limit: " + limit)
        + (sought == null ? "" : ", sought: " + sought.is());
  }

  /** Spark reads once what it finds twice in a plan. */
  @Override public boolean equals(Object other) {
    return other instanceof TxnScan that && that.table.table.equals(table.table) && that.table.seen == table.seen
        && that.wanted.equals(wanted) && Arrays.equals(that.filters, filters) && that.limit == limit
        && Objects.equals(that.sought, sought);
  }

  @Override public int hashCode() { return 31 * table.table.hashCode() + wanted.hashCode(); }

  /** What Python is asked of the scan, with these filters beside its own. */
  ObjectNode request(Filter... more) {
    ObjectNode found = Bridge.request().put("table", table.table).put("seen", table.seen.id);
    found.put("places", readsPlaces());
    found.set("filters", Filters.told(table.rows, filters).addAll(Filters.told(table.rows, more)));
    return limit == Builder.ALL ? found : found.put("limit", limit);
  }

  /** What Python is asked of the scan's rows, where it reads them. */
  ObjectNode requestOfFrame() {
    ObjectNode found = request();
    ArrayNode columns = found.putArray("columns");
    for (StructField each : wanted.fields()) columns.add(each.name());
    return found;
  }

  private synchronized JsonNode told() {
    if (told == null) told = table.bridge.call("scan", request());
    return told;
  }

  @Override public Statistics estimateStatistics() {
    JsonNode found = told();
    return new Statistics() {
      @Override public OptionalLong sizeInBytes() {
        // What is not read does not count, by the sizes that Spark gives rows of its own files: joins are planned as over those.
        long all = ROW_BYTES + table.rows.defaultSize(), part = ROW_BYTES + wanted.defaultSize();
        return OptionalLong.of((long) (found.get("bytes").asDouble() * Math.min(1.0, (double) part / all)));
      }
      @Override public OptionalLong numRows() { return OptionalLong.of(found.get("rows").asLong()); }
    };
  }

  // ---- what is read

  /**
   * Columns of which what a join finds on its other side leaves files out. For others, a scan would wait for the other side, and
   * read as much.
   */
  @Override public synchronized NamedReference[] filterAttributes() {
    // To find rows to be changed, Spark would evaluate the source of a MERGE twice, which may be another one each time.
    if (readsPlaces()) return new NamedReference[0];
    if (dividing == null) {
      ObjectNode request = request();
      ArrayNode columns = request.putArray("columns");
      for (StructField each : wanted.fields()) if (each.dataType() instanceof AtomicType) columns.add(each.name());
      dividing = StreamSupport.stream(table.bridge.call("dividing", request).spliterator(), false)
          .map(each -> Expressions.column("`" + each.asText().replace("`", "``") + "`")).toArray(NamedReference[]::new);
    }
    return dividing;
  }

  @Override public void filter(Predicate[] more) { found.set(new Pushed(table.rows).filters(more)); }

  @Override public Batch toBatch() {
    Filter[] more = found.get();
    found.remove();
    return more == null || more.length == 0 ? all : new TxnBatch(this, more);
  }

  /** Spark need not plan files to know. */
  @Override public ColumnarSupportMode columnarSupportMode() {
    return readers().supportColumnarReads(null) ? ColumnarSupportMode.SUPPORTED : ColumnarSupportMode.UNSUPPORTED;
  }

  @Override public CustomMetric[] supportedCustomMetrics() { return FileMetrics.all(); }
  @Override public CustomTaskMetric[] reportDriverMetrics() { return planned.metrics(); }

  // ---- its readers

  synchronized TxnReaders readers() {
    if (readers == null) {
      StructType read = new StructType();
      for (StructField each : wanted.fields()) if (!isPlace(each)) read = read.add(each);
      boolean isNumbered = told().get("dead").asLong() > 0 || Arrays.stream(wanted.fields()).anyMatch(this::isNumber);
      Filter[] skipping = Arrays.stream(filters).filter(new Pushed(table.rows)::isSafeInParquet).toArray(Filter[]::new);
      // What leaves out pages of nothing but nulls is worth less than that rows can be counted.
      boolean isCounted = isNumbered && Arrays.stream(skipping).allMatch(IsNotNull.class::isInstance);
      if (isNumbered && !isCounted) read = read.add(ROW_INDEX, DataTypes.LongType, true);
      readers = new TxnReaders(parquet(read, isCounted ? new Filter[0] : skipping), read, wanted,
          table.splitBy(),
          isCounted ? Numbered.BY_COUNT : isNumbered ? Numbered.BY_READER : Numbered.NOT, sought);
      if (!readers.supportColumnarReads(null)) for (StructField each : read.fields()) if (table.filled.contains(each.name())) throw byRows(each.name());
    }
    return readers;
  }

  /** Spark's reader of rows does not find what a column came with, where that of batches does. */
  private IllegalStateException byRows(String column) {
    return Told.error("ILLEGAL_STATE", "column " + column + " of " + table.name() + " came with a default, which Spark's reader of rows does not read right:"
        + " batches are needed, spark.sql.parquet.enableVectorizedReader, and no more columns than spark.sql.codegen.maxFields", null);
  }

  /** Whether it is in no file, and tells where a row lies. */
  private boolean readsPlaces() { return Arrays.stream(wanted.fields()).anyMatch(this::isPlace); }

  private boolean isPlace(StructField field) {
    return field.name().equals(TxnTable.PLACE) || isMetadata(field);
  }

  /** A table may have a column of this name, which Spark then takes it for. */
  private boolean isMetadata(StructField field) { return field.name().equals(Metadata.NAME) && table.rows.getFieldIndex(Metadata.NAME).isEmpty(); }

  private boolean isNumber(StructField field) {
    return field.name().equals(TxnTable.PLACE) || (isMetadata(field) && Metadata.numbers(field));
  }

  private ParquetPartitionReaderFactory parquet(StructType wanted, Filter[] skipping) {
    StructType read = table.inFiles.of(readable(wanted));
    SQLConf conf = planner.sessionState().conf();
    // Whatever the session says, no date is another one.
    scala.collection.immutable.Map<String, String> options =
        new scala.collection.immutable.Map.Map2<>("datetimeRebaseMode", "CORRECTED", "int96RebaseMode", "CORRECTED");
    Broadcast<SerializableConfiguration> hadoop = context().broadcast(
        new SerializableConfiguration(settings(read, conf)), ClassTag$.MODULE$.apply(SerializableConfiguration.class));
    StructType all = table.inFiles.of(table.rows).add(ROW_INDEX, DataTypes.LongType, true);
    return new ParquetPartitionReaderFactory(conf, new TaskSettings(hadoop), all, read, new StructType(), table.inFiles.of(skipping),
        Option.empty(), new ParquetOptions(options, conf));
  }

  /**
   * The same columns, where those that the table is partitioned by may be missing in files, whatever the table says of nulls, and
   * with the values of others in files which do not have them.
   */
  private StructType readable(StructType wanted) {
    List<String> split = table.partitionBy();
    StructType found = new StructType();
    for (StructField each : wanted.fields()) {
      found = found.add(each.name(), each.dataType(), each.nullable() || split.contains(each.name()), table.told(each));
    }
    return found;
  }

  /** What Spark's own scan of Parquet sets before it makes such a factory. */
  private Configuration settings(StructType read, SQLConf conf) {
    Configuration found = planner.sessionState().newHadoopConfWithOptions(Map$.MODULE$.empty());
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

  static SparkSession session() { return (SparkSession) org.apache.spark.sql.SparkSession.active(); }
  static SparkContext context() { return session().sparkContext(); }
}

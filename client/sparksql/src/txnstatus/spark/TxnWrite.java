package txnstatus.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.internal.io.FileCommitProtocol$;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.WriteJobDescription;
import org.apache.spark.sql.execution.datasources.WriteTaskResult;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.v2.FileBatchWrite;
import org.apache.spark.sql.execution.datasources.v2.FileWriterFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/**
 * Rows that a statement adds: Spark's own Parquet writer and commit protocol, into a directory of a transaction that Python
 * begins for the statement, and commits. What counts is what the directory holds once Spark's job is done.
 */
final class TxnWrite implements BatchWrite {
  private static final String REBASE = "spark.sql.parquet.datetimeRebaseModeInWrite";

  private final TxnTable table;
  private final StructType rows;
  private final ObjectNode mode;
  private FileBatchWrite job;
  private String statement;
  /** Rows that go as the others come. */
  private ObjectNode replaced;

  TxnWrite(TxnTable table, ObjectNode mode) {
    this.table = table;
    this.rows = table.inFiles.of(table.rows.asNullable()); // files tell of no column, or part of one, that it has no nulls
    this.mode = mode;
  }

  static class Builder implements WriteBuilder, SupportsOverwriteV2, SupportsDynamicOverwrite {
    final ObjectNode mode = Bridge.request().put("mode", "append");
    private final TxnTable table;

    Builder(TxnTable table) { this.table = table; }

    @Override public WriteBuilder truncate() {
      mode.put("mode", "overwrite");
      return this;
    }

    /** A table without partitions is one: Spark asks for it by a setting of the session, of whichever table. */
    @Override public WriteBuilder overwriteDynamicPartitions() {
      if (table.partitionBy().isEmpty()) return truncate();
      mode.put("mode", "overwrite_partitions");
      return this;
    }

    /** The rows of partitions go with their files, others by their places. */
    @Override public WriteBuilder overwrite(Predicate[] condition) {
      ObjectNode partition = partition(condition);
      if (partition == null) {
        mode.put("mode", "replace");
        return this;
      }
      mode.set("partition", partition);
      return truncate();
    }

    /** The names of the values that the first partition columns have where the condition holds; null: it is of something else. */
    private ObjectNode partition(Predicate[] condition) {
      ObjectNode found = Bridge.request();
      for (Predicate each : condition) {
        if (each.children().length != 2 || !(each.children()[0] instanceof NamedReference named)) return null;
        if (!(each.children()[1] instanceof LiteralValue<?> is)) return null;
        String column = column(named);
        boolean isOne = each.name().equals("<=>") || (each.name().equals("=") && is.value() != null);
        if (column == null || !isOne || found.has(column) || !table.rows.apply(column).dataType().equals(is.dataType())) return null;
        found.put(column, PartitionNames.nameOf(is.value(), is.dataType(), column, table.table).toString());
      }
      List<String> first = table.partitionBy().subList(0, Math.min(found.size(), table.partitionBy().size()));
      return found.size() == first.size() && first.stream().allMatch(found::has) ? found : null;
    }

    /** The column that a condition names, which Spark leaves in the letters of the statement; null: it is a part of one. */
    private String column(NamedReference named) {
      if (named.fieldNames().length != 1) return null;
      for (String each : table.rows.fieldNames()) if (each.equalsIgnoreCase(named.fieldNames()[0])) return each; // no two are one
      return null;
    }

    @Override public Write build() { return table.isFar() ? new FarWrite(table, mode) : new Planned(new TxnWrite(table, mode), table); }
  }

  record Planned(BatchWrite write, TxnTable table) implements RequiresDistributionAndOrdering {
    @Override public BatchWrite toBatch() { return write; }
    @Override public Distribution requiredDistribution() { return Distributions.unspecified(); }
    @Override public SortOrder[] requiredOrdering() { return byPartition(table); }
  }

  /** Rows come ordered by partition, so that a task writes one file after the other. */
  static SortOrder[] byPartition(TxnTable table) {
    List<SortOrder> found = new ArrayList<>();
    for (Transform each : table.partitioning()) found.add(Expressions.sort(each.references()[0], SortDirection.ASCENDING));
    return found.toArray(new SortOrder[0]);
  }

  @Override public FileTaskWriters createBatchWriterFactory(PhysicalWriteInfo info) {
    SparkSession spark = (SparkSession) org.apache.spark.sql.SparkSession.active();
    if (spark.sessionState().conf().getConfString(REBASE, "CORRECTED").equalsIgnoreCase("LEGACY")) {
      throw new IllegalArgumentException(REBASE + " is LEGACY: other readers would see other days; set it to CORRECTED");
    }
    if (mode.get("mode").asText().equals("replace")) replaced = RowsReplaced.of(table, spark);
    String directory = begin(spark);
    try {
      return prepared(spark, directory);
    } catch (IOException | RuntimeException e) {
      abort(new WriterCommitMessage[0]); // Spark does not ask for it as early as here
      throw new IllegalStateException(e);
    }
  }

  /** Begins the statement, and returns the URI of the directory for rows that it adds. */
  String begin(SparkSession spark) {
    JsonNode opened = table.bridge.call("open", asked(table, mode, spark));
    statement = opened.get("statement").asText();
    WhyFailed.mark(statement);
    return opened.get("directory").asText();
  }

  /** What Python is asked as a statement begins to write. */
  static ObjectNode asked(TxnTable table, ObjectNode mode, SparkSession spark) {
    mode.put("looks", InsertingMerge.isOf(table, spark));
    mode.set("sought", Sought.columns(table, spark));
    return mode.put("table", table.table).put("seen", table.seen.id);
  }

  private FileTaskWriters prepared(SparkSession spark, String uri) throws IOException {
    String path = new Path(java.net.URI.create(uri)).toString();
    Job hadoop = Job.getInstance(spark.sessionState().newHadoopConfWithOptions(Map$.MODULE$.empty()));
    hadoop.setOutputKeyClass(Void.class);
    hadoop.setOutputValueClass(InternalRow.class);
    FileOutputFormat.setOutputPath(hadoop, new Path(path));
    hadoop.getConfiguration().setBoolean("mapreduce.fileoutputcommitter.marksuccessfuljobs", false);
    String id = UUID.randomUUID().toString();
    FileCommitProtocol committer = FileCommitProtocol$.MODULE$.instantiate(
        spark.sessionState().conf().fileCommitProtocolClass(), id, path, false);
    OutputWriterFactory parquet = new ParquetFileFormat().prepareWrite(spark, hadoop, Map$.MODULE$.empty(), rows);
    Configuration conf = hadoop.getConfiguration();
    conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"); // the default, INT96, has no statistics
    conf.setBoolean("parquet.page.write-checksum.enabled", true);
    // Spark takes what it splits by out of the files: copies are split by, under names that are plain in every path.
    StructType names = new StructType();
    for (String each : table.partitionBy()) names = names.add(PartitionNames.PREFIX + each, "string");
    Seq<Attribute> data = attributes(rows), copies = attributes(names);
    WriteJobDescription description = new WriteJobDescription(id, new SerializableConfiguration(conf), parquet,
        (Seq<Attribute>) data.concat(copies), data, copies, Option.empty(), path, Map$.MODULE$.empty(),
        spark.sessionState().conf().maxRecordsPerFile(), spark.sessionState().conf().sessionLocalTimeZone(), nothing());
    committer.setupJob(hadoop);
    job = new FileBatchWrite(hadoop, description, committer);
    return new FileTaskWriters(new FileWriterFactory(description, committer), table);
  }

  @SuppressWarnings("unchecked")
  private static Seq<Attribute> attributes(StructType schema) { return (Seq<Attribute>) (Seq<?>) DataTypeUtils.toAttributes(schema); }

  @SuppressWarnings("unchecked")
  private static <T> Seq<T> nothing() { return (Seq<T>) Nil$.MODULE$; }

  /** Spark's commit protocol asks the coordinator itself, which authorises an attempt once. */
  @Override public boolean useCommitCoordinator() { return false; }

  // ---- the end

  @Override public void commit(WriterCommitMessage[] messages) {
    ObjectNode request = Bridge.request();
    commit(messages, replaced == null ? request : request.set("changes", replaced));
  }

  /** `request`: what there is to say besides the rows that are written. */
  void commit(WriterCommitMessage[] messages, ObjectNode request) {
    WhyFailed.unmark(statement);
    if (job != null) job.commit(written(messages));
    table.bridge.call("commit", request.put("statement", statement).put("adds", job != null));
  }

  private static WriterCommitMessage[] written(WriterCommitMessage[] messages) {
    List<WriterCommitMessage> found = new ArrayList<>();
    for (WriterCommitMessage each : messages) {
      WriteTaskResult inner = FileTaskWriters.written(each);
      if (inner != null) found.add(inner);
    }
    return found.toArray(new WriterCommitMessage[0]);
  }

  @Override public void abort(WriterCommitMessage[] messages) {
    if (statement == null) return;
    String why = WhyFailed.of(statement);
    WhyFailed.unmark(statement);
    try {
      if (job != null) job.abort(new WriterCommitMessage[0]);
    } finally {
      table.bridge.call("abort", Bridge.request().put("statement", statement).put("because", why));
    }
  }
}

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
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwrite;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.WriteJobDescription;
import org.apache.spark.sql.execution.datasources.WriteTaskResult;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.v2.FileBatchWrite;
import org.apache.spark.sql.execution.datasources.v2.FileWriterFactory;
import org.apache.spark.sql.sources.AlwaysTrue;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
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

  TxnWrite(TxnTable table, ObjectNode mode) {
    this.table = table;
    this.rows = table.rows.asNullable(); // files tell of no column, or part of one, that it has no nulls
    this.mode = mode;
  }

  static class Builder implements WriteBuilder, SupportsOverwrite, SupportsDynamicOverwrite {
    final ObjectNode mode = Bridge.request().put("mode", "append");
    private final TxnTable table;

    Builder(TxnTable table) { this.table = table; }

    @Override public WriteBuilder truncate() {
      mode.put("mode", "overwrite");
      return this;
    }

    @Override public WriteBuilder overwriteDynamicPartitions() {
      mode.put("mode", "overwrite_partitions");
      return this;
    }

    @Override public boolean canOverwrite(Filter[] filters) {
      for (Filter each : filters) if (!(each instanceof AlwaysTrue) && !isPartition(each)) return false;
      return true;
    }

    /** Whether it says which value a partition column has. */
    private boolean isPartition(Filter filter) {
      String column = filter instanceof EqualTo is ? is.attribute() : filter instanceof EqualNullSafe is ? is.attribute() : null;
      return column != null && table.partitionBy().contains(column);
    }

    @Override public WriteBuilder overwrite(Filter[] filters) {
      truncate();
      for (Filter each : filters) {
        if (each instanceof AlwaysTrue) continue;
        Object value = each instanceof EqualTo is ? is.value() : ((EqualNullSafe) each).value();
        mode.withObjectProperty("partition").put(each.references()[0], PartitionNames.nameOf(value));
      }
      return this;
    }

    @Override public Write build() { return new Planned(new TxnWrite(table, mode), table); }
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
    mode.put("looks", InsertingMerge.isOf(table, spark));
    JsonNode opened = table.bridge.call("open", mode.put("table", table.table).put("seen", table.seen.id));
    statement = opened.get("statement").asText();
    try {
      return prepared(spark, opened.get("directory").asText());
    } catch (IOException | RuntimeException e) {
      abort(new WriterCommitMessage[0]); // Spark does not ask for it as early as here
      throw new IllegalStateException(e);
    }
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
    return new FileTaskWriters(new FileWriterFactory(description, committer), rows, table.partitionBy());
  }

  @SuppressWarnings("unchecked")
  private static Seq<Attribute> attributes(StructType schema) { return (Seq<Attribute>) (Seq<?>) DataTypeUtils.toAttributes(schema); }

  @SuppressWarnings("unchecked")
  private static <T> Seq<T> nothing() { return (Seq<T>) Nil$.MODULE$; }

  /** Spark's commit protocol asks the coordinator itself, which authorises an attempt once. */
  @Override public boolean useCommitCoordinator() { return false; }

  // ---- the end

  @Override public void commit(WriterCommitMessage[] messages) { commit(messages, Bridge.request()); }

  /** `request`: what there is to say besides the rows that are written. */
  void commit(WriterCommitMessage[] messages, ObjectNode request) {
    List<WriterCommitMessage> written = new ArrayList<>();
    for (WriterCommitMessage each : messages) {
      WriteTaskResult inner = FileTaskWriters.written(each);
      if (inner != null) written.add(inner);
    }
    job.commit(written.toArray(new WriterCommitMessage[0]));
    table.bridge.call("commit", request.put("statement", statement));
  }

  @Override public void abort(WriterCommitMessage[] messages) {
    if (statement == null) return;
    try {
      if (job != null) job.abort(new WriterCommitMessage[0]);
    } finally {
      table.bridge.call("abort", Bridge.request().put("statement", statement));
    }
  }
}

package txnstatus.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.PriorityQueue;
import java.util.stream.Collectors;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Map$;
import scala.reflect.ClassTag$;

/** A scan in pieces for tasks: of the files that can have rows for its filters, and for those that a run has found. */
final class TxnBatch implements Batch {
  private final TxnScan scan;
  private final Filter[] more;
  private JsonNode told;
  private Broadcast<HashMap<String, byte[]>> dead;

  TxnBatch(TxnScan scan, Filter... more) {
    this.scan = scan;
    this.more = more;
  }

  /** Files, or pieces of some, that a task reads one after the other, with the places of their first rows. What is broadcast is of Java's own classes: see DeadRows. */
  record Files(PartitionedFile[] files, long[] places, Broadcast<HashMap<String, byte[]>> dead) implements InputPartition {}

  /** Rows that are in no file of the table, as a stream of Arrow's: they were changed by their keys of late. */
  record LooseRows(byte[] stream) implements InputPartition {}

  /** Spark reads once what it finds twice in a plan. */
  @Override public boolean equals(Object other) {
    return other instanceof TxnBatch that && that.scan.equals(scan) && Arrays.equals(that.more, more);
  }

  @Override public int hashCode() { return scan.hashCode(); }

  @Override public PartitionReaderFactory createReaderFactory() {
    return new AskingReaders(scan.readers(), scan.table);
  }

  CustomTaskMetric[] metrics() { return told == null ? new CustomTaskMetric[0] : FileMetrics.of(told); }

  @Override public synchronized InputPartition[] planInputPartitions() {
    if (told == null) {
      told = scan.table.bridge.call("files", scan.request(more));
      HashMap<String, byte[]> found = deadRows();
      if (!found.isEmpty()) dead = TxnScan.context().broadcast(found, ClassTag$.MODULE$.apply(HashMap.class));
    }
    scan.planned = this;
    SQLConf conf = scan.planner.sessionState().conf();
    long open = conf.filesOpenCostInBytes(), total = 0;
    for (JsonNode file : told.get("files")) total += file.get("bytes").asLong() + open;
    int cores = TxnScan.context().defaultParallelism();
    long most = Math.min(conf.filesMaxPartitionBytes(), Math.max(1, Math.max(open, total / Math.max(1, cores))));
    if (most <= 0) {
      throw Told.error("INVALID_ARGUMENT", "spark.sql.files.maxPartitionBytes is " + most + ": tasks would read nothing", null);
    }
    List<PartitionedFile> pieces = new ArrayList<>();
    for (JsonNode file : told.get("files")) {
      long length = file.get("bytes").asLong();
      InternalRow values = values(file);
      for (long at = 0; at < length; at += most) pieces.add(piece(file, values, at, Math.min(most, length - at), length));
    }
    pieces.sort(Comparator.comparingLong(PartitionedFile::length).reversed());
    List<InputPartition> found = packed(pieces, Math.max(1, total / most), conf.filesMaxPartitionBytes(), open);
    if (told.hasNonNull("loose")) found.add(new LooseRows(Base64.getDecoder().decode(told.get("loose").asText())));
    return found.toArray(new InputPartition[0]);
  }

  private HashMap<String, byte[]> deadRows() {
    HashMap<String, byte[]> found = new HashMap<>();
    for (JsonNode file : told.get("files")) {
      if (file.hasNonNull("dead")) found.put(file.get("path").asText(), Base64.getDecoder().decode(file.get("dead").asText()));
    }
    return found;
  }

  private static PartitionedFile piece(JsonNode file, InternalRow values, long start, long length, long size) {
    SparkPath path = SparkPath.fromUrlString(file.get("path").asText());
    return new PartitionedFile(values, path, start, length, new String[0], 0L, size, Map$.MODULE$.empty());
  }

  /** Of the columns that the table is partitioned by, where the file does not have them; else none. */
  private InternalRow values(JsonNode file) {
    if (!file.hasNonNull("values")) return InternalRow.empty();
    StructType split = scan.table.splitBy();
    Object[] found = new Object[split.size()];
    for (int i = 0; i < found.length; i++) found[i] = PartitionNames.valueOf(file.get("values").get(i), split.apply(i).dataType());
    return new GenericInternalRow(found);
  }

  /**
   * Each piece, the largest first, to the task that has least so far; `most` bytes go to one. Spark's own scans fill one task after
   * the other: what opening many small files is reckoned at makes room in the first one for most of the large ones.
   */
  private List<InputPartition> packed(List<PartitionedFile> pieces, long tasks, long most, long open) {
    record Task(List<PartitionedFile> pieces, long size) {}
    PriorityQueue<Task> all = new PriorityQueue<>(Comparator.comparingLong(Task::size));
    for (PartitionedFile each : pieces) {
      boolean isNew = all.size() < tasks || all.peek().size() + each.length() > most;
      Task least = isNew ? new Task(new ArrayList<>(), 0) : all.remove();
      least.pieces().add(each);
      all.add(new Task(least.pieces(), least.size() + each.length() + open));
    }
    return all.stream().map(each -> (InputPartition) files(each.pieces())).collect(Collectors.toCollection(ArrayList::new));
  }

  private Files files(List<PartitionedFile> some) {
    long[] places = some.stream().mapToLong(each -> scan.table.seen.places.first(each.urlEncodedPath())).toArray();
    return new Files(some.toArray(new PartitionedFile[0]), places, dead);
  }
}

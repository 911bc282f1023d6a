package txnstatus.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** What a plan tells of the files of a scan, beside Spark's own numbers. */
public final class FileMetrics {
  private FileMetrics() {}

  static CustomMetric[] all() { return new CustomMetric[] {new FilesRead(), new FilesSkipped(), new RowsDeleted()}; }

  static CustomTaskMetric[] of(JsonNode told) {
    return new CustomTaskMetric[] {
        metric(FilesRead.NAME, told.get("files").size()),
        metric(FilesSkipped.NAME, told.get("skipped").asLong()),
        metric(RowsDeleted.NAME, told.get("dead").asLong())};
  }

  private static CustomTaskMetric metric(String name, long value) {
    return new CustomTaskMetric() {
      @Override public String name() { return name; }
      @Override public long value() { return value; }
    };
  }

  /** Spark makes these by their names, to add up what they say. */
  public static final class FilesRead extends CustomSumMetric {
    static final String NAME = "filesRead";
    @Override public String name() { return NAME; }
    @Override public String description() { return "files read"; }
  }

  public static final class FilesSkipped extends CustomSumMetric {
    static final String NAME = "filesSkipped";
    @Override public String name() { return NAME; }
    @Override public String description() { return "files skipped"; }
  }

  public static final class RowsDeleted extends CustomSumMetric {
    static final String NAME = "rowsDeleted";
    @Override public String name() { return NAME; }
    @Override public String description() { return "deleted rows in files read"; }
  }
}

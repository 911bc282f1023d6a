package txnstatus.spark;

import java.util.Objects;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.V1Scan;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.TableScan;
import org.apache.spark.sql.types.StructType;

/** A scan of files where Spark has no file system: Python makes a DataFrame of them, whose tasks read them. */
record FarScan(TxnScan scan) implements V1Scan, SupportsReportStatistics {
  @Override public StructType readSchema() { return scan.readSchema(); }
  @Override public String description() { return scan.description() + ", by Python"; }
  @Override public Statistics estimateStatistics() { return scan.estimateStatistics(); }

  @Override @SuppressWarnings("unchecked")
  public <T extends BaseRelation & TableScan> T toV1TableScan(SQLContext context) { return (T) new Rows(scan, context); }

  /** The rows, as Spark has them inside. */
  private static final class Rows extends BaseRelation implements TableScan {
    private final TxnScan scan;
    private final SQLContext context;

    Rows(TxnScan scan, SQLContext context) {
      this.scan = scan;
      this.context = context;
    }

    @Override public SQLContext sqlContext() { return context; }
    @Override public StructType schema() { return scan.readSchema(); }
    @Override public boolean needConversion() { return false; }
    @Override public boolean equals(Object other) { return other instanceof Rows that && Objects.equals(that.scan, scan); }
    @Override public int hashCode() { return scan.hashCode(); }

    @Override @SuppressWarnings("unchecked")
    public RDD<Row> buildScan() {
      String view = scan.table.bridge.call("frame", scan.requestOfFrame()).asText();
      try {
        return (RDD<Row>) (RDD<?>) ((Dataset<Row>) scan.planner.table("global_temp." + view)).queryExecution().toRdd();
      } finally {
        scan.planner.catalog().dropGlobalTempView(view);
      }
    }
  }
}

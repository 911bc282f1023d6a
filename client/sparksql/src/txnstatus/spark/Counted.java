package txnstatus.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The number of all rows, which Python knows: of how many files there are, how many rows each has and how many are deleted. */
record Counted(String table, long count, int times) implements LocalScan {
  /** Whether it is asked for the number of rows, and nothing else. */
  static boolean isAll(Aggregation aggregation) {
    if (aggregation.groupByExpressions().length > 0) return false;
    for (AggregateFunc each : aggregation.aggregateExpressions()) if (!(each instanceof CountStar)) return false;
    return true;
  }

  @Override public StructType readSchema() {
    StructType found = new StructType();
    for (int i = 0; i < times; i++) found = found.add("count" + i, DataTypes.LongType, false);
    return found;
  }

  @Override public InternalRow[] rows() {
    Object[] row = new Object[times];
    java.util.Arrays.fill(row, count);
    return new InternalRow[] {new GenericInternalRow(row)};
  }

  @Override public String description() { return table + ", counted by its manifests"; }
}

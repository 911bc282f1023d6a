package txnstatus.spark;

import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.jdk.javaapi.CollectionConverters;

/** A MERGE that does nothing but insert Spark plans as an append of those rows for which an anti-join finds none in the table. */
final class InsertingMerge {
  private InsertingMerge() {}

  /** Whether the statement that this thread runs appends to the table what it has looked for there, and not found. */
  static boolean isOf(TxnTable table, SparkSession spark) {
    QueryExecution running = running(spark);
    return running != null && misses(running.analyzed(), table);
  }

  /** The statement that this thread runs, or null. */
  static QueryExecution running(SparkSession spark) {
    String id = spark.sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    return id == null ? null : SQLExecution.getQueryExecution(Long.parseLong(id));
  }

  private static boolean misses(LogicalPlan plan, TxnTable table) {
    if (plan instanceof Join join && join.joinType().equals(LeftAnti$.MODULE$) && reads(join.right(), table)) return true;
    for (LogicalPlan each : CollectionConverters.asJava(plan.children())) if (misses(each, table)) return true;
    return false;
  }

  private static boolean reads(LogicalPlan plan, TxnTable table) {
    if (plan instanceof DataSourceV2Relation found && found.table() instanceof TxnTable there && there.table.equals(table.table)) return true;
    for (LogicalPlan each : CollectionConverters.asJava(plan.children())) if (reads(each, table)) return true;
    return false;
  }
}

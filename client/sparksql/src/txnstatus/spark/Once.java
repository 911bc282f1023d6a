package txnstatus.spark;

import java.util.Arrays;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import scala.collection.Iterator;
import scala.collection.immutable.Nil$;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/**
 * The few rows of a plan that runs once, before the first job that reads them, however often they are read, and by attempts at a
 * task: what gives other rows each time gives one answer here. Tasks get their part with what they are told to do.
 */
final class Once extends RDD<InternalRow> {
  private static final int ROWS_OF_A_TASK = 10_000;

  private final transient SparkSession session;
  private transient LogicalPlan plan;

  Once(SparkSession session, LogicalPlan plan) {
    super(session.sparkContext(), (scala.collection.immutable.Seq) Nil$.MODULE$, ClassTag$.MODULE$.apply(InternalRow.class));
    this.session = session;
    this.plan = plan;
  }

  private record Part(int index, InternalRow[] rows) implements Partition {}

  /** Spark asks once, and in the thread that begins a job. */
  @Override public Partition[] getPartitions() {
    InternalRow[] rows = QueryExecution.prepareExecutedPlan(session, plan).executeCollect();
    plan = null;
    Partition[] found = new Partition[(rows.length + ROWS_OF_A_TASK - 1) / ROWS_OF_A_TASK];
    for (int i = 0; i < found.length; i++) {
      int first = i * ROWS_OF_A_TASK;
      found[i] = new Part(i, Arrays.copyOfRange(rows, first, Math.min(rows.length, first + ROWS_OF_A_TASK)));
    }
    return found;
  }

  @Override public Iterator<InternalRow> compute(Partition part, TaskContext task) {
    return CollectionConverters.asScala(Arrays.asList(((Part) part).rows).iterator());
  }
}

package txnstatus.spark;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The few rows that a DELETE or an UPDATE is about are found within its scan. Spark makes one piece of code of what a statement does
 * to rows, which the JVM compiles anew with each one, together with all that reads batches, while the job runs. What looks at a
 * condition is little code, and its loop stays compiled. Spark's own filter gets few rows then.
 */
final class SoughtRows extends Rule<LogicalPlan> {
  /** On the columns of a scan. */
  record Condition(Expression is, Seq<Attribute> columns) implements Serializable {
    BasePredicate compiled() { return Predicate$.MODULE$.create(is, columns); }
  }

  @Override public LogicalPlan apply(LogicalPlan plan) { return plan instanceof V2WriteCommand ? within(plan) : plan; }

  private LogicalPlan within(LogicalPlan plan) {
    if (plan.children().size() != 1) return plan;
    LogicalPlan child = plan.children().head(), found = plan instanceof Filter filter ? seeking(child, filter.condition()) : within(child);
    return found == child ? plan : (LogicalPlan) plan.withNewChildren(CollectionConverters.asScala(List.of(found)).toSeq());
  }

  @SuppressWarnings("unchecked")
  private LogicalPlan seeking(LogicalPlan plan, Expression condition) {
    boolean isPlain = condition.deterministic() && !condition.containsPattern(TreePattern.PLAN_EXPRESSION())
        && !condition.containsPattern(TreePattern.PYTHON_UDF());
    if (!isPlain || !(plan instanceof DataSourceV2ScanRelation read && read.scan() instanceof TxnScan scan && scan.maySeek())) return plan;
    // What else a relation is made of depends on the release of Spark.
    Object[] parts = CollectionConverters.asJavaCollection(read.productIterator().toSeq()).toArray();
    parts[1] = scan.seeking(new Condition(condition, (Seq<Attribute>) (Seq<?>) read.output()));
    return (LogicalPlan) plan.makeCopy(parts);
  }
}

package txnstatus.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.BROADCAST$;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.Some;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.math.BigInt;
import scala.runtime.AbstractPartialFunction;

/**
 * A MERGE that inserts what it does not find keeps all rows of its source, so that Spark cannot send a small one to where the table
 * is read, and shuffles the table. Where the source is small it runs once here, the rows of the table that it finds are kept by a
 * semi-join, to which it is sent, and the join as it was is of these alone.
 */
final class FewSought extends Rule<LogicalPlan> {
  private final SparkSession session;

  private FewSought(SparkSession session) { this.session = session; }

  /** With the other rule for statements that change rows. */
  static void install(SparkSession session) {
    Seq<Rule<LogicalPlan>> there = session.experimental().extraOptimizations();
    if (CollectionConverters.asJava(there).stream().anyMatch(FewSought.class::isInstance)) return;
    List<Rule<LogicalPlan>> all = new ArrayList<>(CollectionConverters.asJava(there));
    all.add(new FewSought(session));
    all.add(new SoughtRows());
    session.experimental().extraOptimizations_$eq(seq(all));
  }

  @Override public LogicalPlan apply(LogicalPlan plan) {
    // A part of a plan that has common expressions does not run by itself.
    return plan instanceof V2WriteCommand && !plan.containsPattern(TreePattern.CTE()) ? within(plan) : plan;
  }

  private LogicalPlan within(LogicalPlan plan) {
    if (plan instanceof Join join) {
      if (join.joinType().equals(RightOuter$.MODULE$) && isFew(join.left(), join.right(), join)) return ofFew(join.left(), join.right(), join);
      if (join.joinType().equals(LeftAnti$.MODULE$) && isFew(join.right(), join.left(), join)) return ofFew(join.right(), join.left(), join);
      return plan;
    }
    if (plan.children().size() != 1) return plan;
    LogicalPlan child = plan.children().head(), found = within(child);
    return found == child ? plan : (LogicalPlan) plan.withNewChildren(seq(List.of(found)));
  }

  /** Whether the source may be broadcast, by what Spark's optimizer says of it, the table's rows may not, and the source has not run yet. */
  private boolean isFew(LogicalPlan rows, LogicalPlan source, Join join) {
    long most = conf().autoBroadcastJoinThreshold();
    return readsTable(rows) && source.stats().sizeInBytes().$less$eq(BigInt.apply(most)) && rows.stats().sizeInBytes().$greater(BigInt.apply(most))
        && join.condition().isDefined() && join.condition().get().deterministic() && compares(join.condition().get(), rows, source)
        && !source.isStreaming() && !runsOnce(source);
  }

  private static boolean readsTable(LogicalPlan plan) {
    return plan instanceof DataSourceV2ScanRelation found ? found.scan() instanceof TxnScan : plan.children().size() == 1 && readsTable(plan.children().head());
  }

  private static boolean runsOnce(LogicalPlan plan) {
    return plan instanceof LogicalRDD found ? found.rdd() instanceof Once : plan.children().size() == 1 && runsOnce(plan.children().head());
  }

  /** Whether a hash of the source finds the rows: without, each would be looked at for each row of the table. */
  private static boolean compares(Expression condition, LogicalPlan rows, LogicalPlan source) {
    if (condition instanceof EqualTo is) {
      return isOf(is.left(), rows) && isOf(is.right(), source) || isOf(is.left(), source) && isOf(is.right(), rows);
    }
    return condition instanceof And both && (compares(both.left(), rows, source) || compares(both.right(), rows, source));
  }

  private static boolean isOf(Expression value, LogicalPlan plan) { return !value.references().isEmpty() && value.references().subsetOf(plan.outputSet()); }

  private LogicalPlan ofFew(LogicalPlan rows, LogicalPlan source, Join join) {
    Once once = new Once(session, source);
    LogicalPlan sent = read(once, source.schema());
    Map<ExprId, Attribute> attributes = new HashMap<>();
    List<NamedExpression> named = new ArrayList<>(), compared = new ArrayList<>();
    LogicalPlan kept = read(once, source.schema());
    for (int i = 0; i < source.output().size(); i++) {
      Attribute was = source.output().apply(i), is = sent.output().apply(i);
      attributes.put(was.exprId(), is);
      named.add(new Alias(kept.output().apply(i), was.name(), was.exprId(), was.qualifier(), Option.empty(), seq(List.of())));
      if (join.condition().get().references().contains(was)) compared.add((NamedExpression) is);
    }
    Option<HintInfo> broadcast = new Some<>(new HintInfo(new Some<>(BROADCAST$.MODULE$)));
    LogicalPlan found = new Join(rows, new Project(seq(compared), sent), LeftSemi$.MODULE$,
        new Some<>(renamed(join.condition().get(), attributes)), new JoinHint(Option.empty(), broadcast));
    LogicalPlan again = new Project(seq(named), kept);
    return (LogicalPlan) join.withNewChildren(seq(join.left() == rows ? List.of(found, again) : List.of(again, found)));
  }

  private LogicalPlan read(Once rows, StructType schema) { return session.internalCreateDataFrame(rows, schema, false).queryExecution().analyzed(); }

  private static Expression renamed(Expression condition, Map<ExprId, Attribute> attributes) {
    return (Expression) condition.transform(new AbstractPartialFunction<Expression, Expression>() {
      @Override public boolean isDefinedAt(Expression each) { return each instanceof Attribute was && attributes.containsKey(was.exprId()); }
      @Override public <A extends Expression, B> B applyOrElse(A each, Function1<A, B> otherwise) {
        return isDefinedAt(each) ? (B) attributes.get(((Attribute) each).exprId()) : otherwise.apply(each);
      }
    });
  }

  private static <T> Seq<T> seq(List<T> all) { return CollectionConverters.asScala(all).toSeq(); }
}

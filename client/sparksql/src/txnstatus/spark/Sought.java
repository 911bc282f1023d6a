package txnstatus.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Columns in which each row that a MERGE inserts has the value by which ON looked for it: where no row has that value, it was
 * rightly not found. Every clause that inserts must say so; a column that is not named here says nothing.
 */
final class Sought {
  private final TxnTable table;
  private final ArrayNode found = Bridge.JSON.createArrayNode();

  private Sought(TxnTable table) { this.table = table; }

  /** The names of such columns, for the statement that this thread runs; none where it is no MERGE. */
  static ArrayNode columns(TxnTable table, SparkSession spark) {
    QueryExecution running = InsertingMerge.running(spark);
    Sought sought = new Sought(table);
    if (running != null) sought.lookAt(running.analyzed());
    return sought.found;
  }

  /** Of its pairs a MERGE makes rows; one that does nothing but insert, by one clause, appends a projection of what an anti-join leaves. */
  private void lookAt(LogicalPlan plan) {
    if (plan instanceof MergeRows rows && joined(rows.child()) instanceof Join join) {
      List<List<Expression>> inserted = new ArrayList<>();
      for (MergeRows.Instruction each : CollectionConverters.asJava(rows.notMatchedInstructions())) {
        if (!(each instanceof MergeRows.Keep kept)) return;
        inserted.add(CollectionConverters.asJava(kept.output()));
      }
      compare(join, inserted, CollectionConverters.asJava(rows.output()).stream().map(Attribute::name).toList());
    } else if (plan instanceof V2WriteCommand write && isAntiJoin(joined(write.query())) && !(plan instanceof OverwriteByExpression)) {
      List<Expression> values = new ArrayList<>();
      for (Attribute each : CollectionConverters.asJava(write.query().output())) values.add(through(each, write.query()));
      Join join = (Join) joined(write.query());
      compare(join, List.of(values), List.of(table.rows.fieldNames()));
    } else {
      for (LogicalPlan each : CollectionConverters.asJava(plan.children())) lookAt(each);
    }
  }

  private static boolean isAntiJoin(LogicalPlan plan) { return plan instanceof Join join && join.joinType().equals(LeftAnti$.MODULE$); }

  private static LogicalPlan joined(LogicalPlan plan) {
    if (plan instanceof Project made) return joined(made.child());
    return plan instanceof Filter filter ? joined(filter.child()) : plan;
  }

  /** A value as what lies below projections has it. */
  private static Expression through(Expression value, LogicalPlan plan) {
    Expression found = bare(value);
    if (plan instanceof Filter filter) return through(found, filter.child());
    if (!(plan instanceof Project made) || !(found instanceof Attribute asked)) return found;
    for (NamedExpression each : CollectionConverters.asJava(made.projectList())) {
      if (each.exprId().equals(asked.exprId())) return through((Expression) each, made.child());
    }
    return found;
  }

  private static Expression bare(Expression value) {
    if (value instanceof Alias named) return bare(named.child());
    return value instanceof AssertNotNull inner ? bare(inner.child()) : value;
  }

  /** `inserted`: values of new rows, by clause; `names`: the columns that these are of. */
  private void compare(Join join, List<List<Expression>> inserted, List<String> names) {
    AttributeSet target = target(join);
    if (target == null || join.condition().isEmpty() || inserted.isEmpty()) return;
    List<EqualTo> compared = new ArrayList<>();
    split(join.condition().get(), compared);
    for (EqualTo each : compared) {
      Attribute column = column(each.left(), target);
      Expression value = column == null ? each.left() : each.right();
      if (column == null) column = column(each.right(), target);
      if (column == null || value.references().exists(target::contains)) continue;
      int place = names.indexOf(column.name());
      if (place >= 0 && inserted.stream().allMatch(row -> place < row.size() && bare(row.get(place)).semanticEquals(value))) {
        found.add(column.name());
      }
    }
  }

  private static void split(Expression condition, List<EqualTo> compared) {
    if (condition instanceof And both) {
      split(both.left(), compared);
      split(both.right(), compared);
    } else if (condition instanceof EqualTo each) {
      compared.add(each);
    }
  }

  private Attribute column(Expression side, AttributeSet target) {
    return side instanceof Attribute it && target.contains(it) && table.rows.getFieldIndex(it.name()).isDefined() ? it : null;
  }

  /** The columns of the table as its side of the join reads them: the left one, where it has rows that may change; null: it is not there. */
  private AttributeSet target(Join join) {
    DataSourceV2Relation found = relation(isAntiJoin(join) ? join.right() : join.left());
    return found == null ? null : found.outputSet();
  }

  private DataSourceV2Relation relation(LogicalPlan plan) {
    if (plan instanceof Project made) return relation(made.child());
    if (plan instanceof Filter near) return relation(near.child());
    if (!(plan instanceof DataSourceV2Relation found)) return null;
    Table read = found.table() instanceof RowLevelOperationTable changed ? changed.table() : found.table();
    return read instanceof TxnTable there && there.table.equals(table.table) ? found : null;
  }
}

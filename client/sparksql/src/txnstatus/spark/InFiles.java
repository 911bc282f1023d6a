package txnstatus.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Not;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.sources.StringContains;
import org.apache.spark.sql.sources.StringEndsWith;
import org.apache.spark.sql.sources.StringStartsWith;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** What columns are called in files, where that is otherwise than in the table: they were renamed, or have the name of one that was. */
record InFiles(Map<String, String> names) {
  static InFiles of(JsonNode columns) {
    Map<String, String> found = new HashMap<>();
    for (JsonNode each : columns) if (!each.get("stored").asText().isEmpty()) found.put(each.get("name").asText(), each.get("stored").asText());
    return new InFiles(found);
  }

  /** The same columns, by their names in files. */
  StructType of(StructType rows) {
    StructType found = new StructType();
    for (StructField each : rows.fields()) {
      found = found.add(new StructField(names.getOrDefault(each.name(), each.name()), each.dataType(), each.nullable(), each.metadata()));
    }
    return found;
  }

  Filter[] of(Filter... filters) {
    Filter[] found = new Filter[filters.length];
    for (int at = 0; at < found.length; at++) found[at] = names.isEmpty() ? filters[at] : of(filters[at]);
    return found;
  }

  /** All that `Pushed` makes. */
  private Filter of(Filter filter) {
    if (filter instanceof And is) return new And(of(is.left()), of(is.right()));
    if (filter instanceof Or is) return new Or(of(is.left()), of(is.right()));
    if (filter instanceof Not is) return new Not(of(is.child()));
    if (filter instanceof EqualTo is) return new EqualTo(name(is.attribute()), is.value());
    if (filter instanceof EqualNullSafe is) return new EqualNullSafe(name(is.attribute()), is.value());
    if (filter instanceof LessThan is) return new LessThan(name(is.attribute()), is.value());
    if (filter instanceof LessThanOrEqual is) return new LessThanOrEqual(name(is.attribute()), is.value());
    if (filter instanceof GreaterThan is) return new GreaterThan(name(is.attribute()), is.value());
    if (filter instanceof GreaterThanOrEqual is) return new GreaterThanOrEqual(name(is.attribute()), is.value());
    if (filter instanceof In is) return new In(name(is.attribute()), is.values());
    if (filter instanceof IsNull is) return new IsNull(name(is.attribute()));
    if (filter instanceof IsNotNull is) return new IsNotNull(name(is.attribute()));
    if (filter instanceof StringStartsWith is) return new StringStartsWith(name(is.attribute()), is.value());
    if (filter instanceof StringEndsWith is) return new StringEndsWith(name(is.attribute()), is.value());
    if (filter instanceof StringContains is) return new StringContains(name(is.attribute()), is.value());
    if (filter.references().length == 0) return filter;
    throw new IllegalStateException("a filter that names columns in a way of its own: " + filter);
  }

  private String name(String attribute) {
    String called = names.get(Filters.column(attribute));
    return called == null ? attribute : Expressions.column("`" + called.replace("`", "``") + "`").describe();
  }
}

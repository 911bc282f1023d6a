package txnstatus.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.Objects;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.util.AttributeNameParser$;
import org.apache.spark.sql.sources.AlwaysFalse;
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
import org.apache.spark.sql.sources.StringStartsWith;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/** Spark's filters as txnclient/read/filtered.py takes them: what has no words there is told as unknown. */
final class Filters {
  /** Values of which each is told. */
  private static final int MOST_VALUES = 1000;

  private final StructType rows;

  private Filters(StructType rows) { this.rows = rows; }

  static ArrayNode told(StructType rows, Filter... filters) {
    ArrayNode found = Bridge.JSON.createArrayNode();
    for (Filter each : filters) found.add(new Filters(rows).of(each));
    return found;
  }

  private ObjectNode of(Filter filter) {
    if (filter instanceof And both) return several("and", both.left(), both.right());
    if (filter instanceof Or either) return several("or", either.left(), either.right());
    if (filter instanceof AlwaysFalse) return told("never");
    if (filter instanceof EqualTo is) return compared("=", is.attribute(), is.value());
    if (filter instanceof Not not && not.child() instanceof EqualTo is) return compared("<>", is.attribute(), is.value());
    if (filter instanceof Not not && not.child() instanceof IsNull is) return named("not null", is.attribute());
    if (filter instanceof EqualNullSafe is) {
      return is.value() == null ? named("null", is.attribute()) : compared("=", is.attribute(), is.value());
    }
    if (filter instanceof LessThan is) return compared("<", is.attribute(), is.value());
    if (filter instanceof LessThanOrEqual is) return compared("<=", is.attribute(), is.value());
    if (filter instanceof GreaterThan is) return compared(">", is.attribute(), is.value());
    if (filter instanceof GreaterThanOrEqual is) return compared(">=", is.attribute(), is.value());
    if (filter instanceof StringStartsWith is) return compared("starts with", is.attribute(), is.value());
    if (filter instanceof IsNull is) return named("null", is.attribute());
    if (filter instanceof IsNotNull is) return named("not null", is.attribute());
    if (filter instanceof In in) return among(in);
    return told("unknown");
  }

  /** The column that a filter names, as Spark writes it: in backquotes where it is of other letters than ASCII's; null: a part of one. */
  static String column(String attribute) {
    Seq<String> parts = AttributeNameParser$.MODULE$.parseAttributeName(attribute);
    return parts.size() == 1 ? parts.head() : null;
  }

  private static ObjectNode told(String is) { return Bridge.request().put("is", is); }

  private static ObjectNode named(String is, String attribute) { return told(is).put("column", column(attribute)); }

  private ObjectNode several(String is, Filter... filters) {
    ObjectNode found = told(is);
    found.set("of", told(rows, filters));
    return found;
  }

  private ObjectNode compared(String is, String column, Object value) {
    String text = text(column, value);
    return text == null ? told("unknown") : named(is, column).put("value", text);
  }

  private ObjectNode among(In in) {
    // Nothing is equal to null.
    Object[] sought = Arrays.stream(in.values()).filter(Objects::nonNull).toArray();
    if (sought.length > MOST_VALUES) return between(in.attribute(), sought);
    ObjectNode found = named("in", in.attribute());
    ArrayNode values = found.putArray("values");
    for (Object each : sought) {
      String text = text(in.attribute(), each);
      if (text == null) return told("unknown");
      values.add(text);
    }
    return found;
  }

  /** What holds for all of the values, which a join may find a million of. */
  @SuppressWarnings("unchecked")
  private ObjectNode between(String attribute, Object... values) {
    if (text(attribute, values[0]) == null) return told("unknown");
    Comparator<Object> byRank = Comparator.comparing(each -> (Comparable<Object>) CatalystTypeConverters.convertToCatalyst(each));
    return several("and", new GreaterThanOrEqual(attribute, Collections.min(Arrays.asList(values), byRank)),
        new LessThanOrEqual(attribute, Collections.max(Arrays.asList(values), byRank)));
  }

  /** As manifests have it; null for a value of which they have no such text. */
  private String text(String attribute, Object value) {
    String column = column(attribute);
    if (value == null || value instanceof byte[] || column == null || rows.getFieldIndex(column).isEmpty()) return null;
    Object inner = CatalystTypeConverters.convertToCatalyst(value);
    if (rows.apply(column).dataType().equals(DataTypes.DateType)) return LocalDate.ofEpochDay(((Number) inner).longValue()).toString();
    // Manifests have a float as the double that it is; its own text is the shortest one of no other float.
    return inner instanceof Float fraction ? Double.toString(fraction) : inner.toString();
  }
}

package txnstatus.spark;

import java.time.LocalDate;
import java.util.Arrays;
import java.util.Objects;
import java.util.function.BinaryOperator;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
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
import org.apache.spark.sql.sources.StringContains;
import org.apache.spark.sql.sources.StringEndsWith;
import org.apache.spark.sql.sources.StringStartsWith;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * What Spark pushes down to a table with these columns, as filters that its Parquet reader takes. Spark would make such filters
 * itself, but of days and times of java.sql, whose calendar has no 1582-10-05 to 1582-10-14, unless a setting says otherwise.
 */
record Pushed(StructType rows) {
  /** Null where there is no such filter: of parts of columns, and of what is no comparison with a value. */
  Filter filter(Predicate is) {
    Expression[] of = is.children();
    return switch (is.name()) {
      case "ALWAYS_FALSE" -> new AlwaysFalse();
      case "AND" -> both(of, And::new);
      case "OR" -> both(of, Or::new);
      case "NOT" -> {
        Filter found = of[0] instanceof Predicate inner ? filter(inner) : null;
        yield found == null ? null : new Not(found);
      }
      default -> of.length > 0 && isColumn(of[0]) ? ofColumn(is.name(), (NamedReference) of[0], Arrays.copyOfRange(of, 1, of.length))
          : of.length == 2 && isColumn(of[1]) && !turned(is.name()).isEmpty() ? ofColumn(turned(is.name()), (NamedReference) of[1], of[0])
          : null;
    };
  }

  Filter[] filters(Predicate... all) { return Arrays.stream(all).map(this::filter).filter(Objects::nonNull).toArray(Filter[]::new); }

  /**
   * Whether Parquet leaves out no row for which the filter holds. Of fractions it may: its ranges have no NaN where pyarrow has
   * written them, and its dictionaries take -0.0 for another value than 0.0.
   */
  boolean isSafeInParquet(Filter filter) {
    if (filter instanceof And both) return isSafeInParquet(both.left()) && isSafeInParquet(both.right());
    if (filter instanceof Or either) return isSafeInParquet(either.left()) && isSafeInParquet(either.right());
    if (filter instanceof IsNull || filter instanceof IsNotNull || Arrays.stream(filter.references()).noneMatch(this::isFraction)) return true;
    if (filter instanceof EqualTo is) return isOne(is.value());
    if (filter instanceof EqualNullSafe is) return isOne(is.value());
    if (filter instanceof LessThan is) return isOne(is.value());
    if (filter instanceof LessThanOrEqual is) return isOne(is.value());
    return filter instanceof In in && Arrays.stream(in.values()).allMatch(Pushed::isOne); // others may hold for a NaN
  }

  private boolean isFraction(String attribute) {
    String column = Filters.column(attribute);
    DataType type = column == null || rows.getFieldIndex(column).isEmpty() ? null : rows.apply(column).dataType();
    return DataTypes.FloatType.equals(type) || DataTypes.DoubleType.equals(type);
  }

  /** Whether a fraction that is equal to it has its bits. */
  private static boolean isOne(Object value) {
    return !(value instanceof Number fraction) || (fraction.doubleValue() != 0 && !Double.isNaN(fraction.doubleValue()));
  }

  private Filter both(Expression[] of, BinaryOperator<Filter> as) {
    if (!(of[0] instanceof Predicate left && of[1] instanceof Predicate right)) return null;
    Filter[] found = filters(left, right);
    return found.length == 2 ? as.apply(found[0], found[1]) : null;
  }

  private boolean isColumn(Expression is) {
    return is instanceof NamedReference named && named.fieldNames().length == 1 && rows.getFieldIndex(named.fieldNames()[0]).isDefined()
        && rows.apply(named.fieldNames()[0]).dataType() instanceof AtomicType;
  }

  private Filter ofColumn(String name, NamedReference column, Expression... others) {
    String called = column.describe();
    if (name.equals("IS_NULL")) return new IsNull(called);
    if (name.equals("IS_NOT_NULL")) return new IsNotNull(called);
    Object[] values = new Object[others.length];
    for (int at = 0; at < values.length; at++) {
      if (!(others[at] instanceof LiteralValue<?> is)) return null;
      values[at] = value(is.value(), rows.apply(column.fieldNames()[0]).dataType());
    }
    if (name.equals("IN")) return new In(called, values);
    if (name.equals("<=>") && values.length == 1) return new EqualNullSafe(called, values[0]);
    return values.length == 1 && values[0] != null ? compared(name, called, values[0]) : null;
  }

  private static Filter compared(String name, String column, Object value) {
    return switch (name) {
      case "=" -> new EqualTo(column, value);
      case "<>" -> new Not(new EqualTo(column, value));
      case "<" -> new LessThan(column, value);
      case "<=" -> new LessThanOrEqual(column, value);
      case ">" -> new GreaterThan(column, value);
      case ">=" -> new GreaterThanOrEqual(column, value);
      case "STARTS_WITH" -> new StringStartsWith(column, (String) value);
      case "ENDS_WITH" -> new StringEndsWith(column, (String) value);
      case "CONTAINS" -> new StringContains(column, (String) value);
      default -> null;
    };
  }

  /** The comparison of a column with a value that stands before it, as one with a value behind it; empty: there is none. */
  private static String turned(String name) {
    return switch (name) {
      case "=", "<=>", "<>" -> name;
      case "<" -> ">";
      case "<=" -> ">=";
      case ">" -> "<";
      case ">=" -> "<=";
      default -> "";
    };
  }

  /** Of a value as Spark's rows have it. */
  private static Object value(Object inner, DataType type) {
    if (inner != null && type.equals(DataTypes.DateType)) return LocalDate.ofEpochDay((Integer) inner);
    if (inner != null && type.equals(DataTypes.TimestampType)) return DateTimeUtils.microsToInstant((Long) inner);
    return CatalystTypeConverters.convertToScala(inner, type);
  }
}

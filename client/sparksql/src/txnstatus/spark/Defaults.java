package txnstatus.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser;
import org.apache.spark.sql.connector.catalog.ColumnDefaultValue;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.Option;

/** Defaults of columns: a statement says constants, and the text of their values is what is kept. */
final class Defaults {
  private Defaults() {}

  /** The text of the value that a statement says; of a time with its zone. Null: it is a null. */
  static String text(String sql, String column) {
    Expression said = new CatalystSqlParser().parseExpression(sql);
    if (said instanceof Cast cast && cast.needsTimeZone()) said = (Expression) cast.withTimeZone("UTC"); // as SHOW CREATE TABLE does
    if (!said.resolved() || !said.foldable()) {
      throw Told.error("INVALID_ARGUMENT", "DEFAULT " + sql + " of column " + column + ": a default is a literal", null);
    }
    Object found = cast(said, DataTypes.StringType);
    return found == null ? null : said.dataType().equals(DataTypes.TimestampType) ? found + "+00:00" : found.toString();
  }

  /**
   * What Spark is told of a column: its value in rows that are inserted without it, and that of rows in files which do not have it.
   * Null: both are nulls.
   */
  static ColumnDefaultValue of(JsonNode told, DataType type) {
    JsonNode now = told.path("default"), initial = told.path("initial");
    if (!now.isTextual() && !initial.isTextual()) return null;
    String sql = now.isTextual() ? "CAST(" + literal(now).sql() + " AS " + type.sql() + ")" : "NULL";
    return new ColumnDefaultValue(sql, new LiteralValue<>(initial.isTextual() ? cast(literal(initial), type) : null, type));
  }

  private static Literal literal(JsonNode text) { return Literal.create(text.asText(), DataTypes.StringType); }

  private static Object cast(Expression value, DataType type) {
    return Cast$.MODULE$.apply(value, type, Option.apply("UTC"), true).eval(null);
  }
}

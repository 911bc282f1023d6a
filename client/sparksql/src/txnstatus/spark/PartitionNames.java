package txnstatus.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.LocalDate;
import java.util.HexFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;

/** Names of partitions' values, as txnstatus/partitions.py has them; a test compares the two. */
final class PartitionNames {
  static final String PREFIX = "_partition_";
  private static final int MAX_CHARS = 200, KEPT_CHARS = 100, HASH_CHARS = 32;
  private static final long FIRST_DAY = LocalDate.of(1, 1, 1).toEpochDay(), LAST_DAY = LocalDate.of(9999, 12, 31).toEpochDay();

  private PartitionNames() {}

  /** Of a value as Spark's rows have it. */
  static UTF8String nameOf(Object value, DataType type, String column, String table) {
    if (value instanceof UTF8String text && !text.isValid()) {
      // As text, several such are one.
      throw refused(column, table, "its texts are UTF-8, and the data has bytes that are not: " + HexFormat.of().formatHex(text.getBytes()));
    }
    if (!type.equals(DataTypes.DateType) || value == null) return UTF8String.fromString(nameOf(value));
    long day = ((Integer) value).longValue();
    if (day < FIRST_DAY || day > LAST_DAY) {
      throw refused(column, table, "its days are from 0001-01-01 to 9999-12-31, and the data has " + LocalDate.ofEpochDay(day));
    }
    return UTF8String.fromString(LocalDate.ofEpochDay(day).toString());
  }

  /** A value as Spark's rows have it, of its text. */
  static Object valueOf(JsonNode told, DataType type) {
    if (told.isNull()) return null;
    String text = told.asText();
    if (type instanceof DecimalType decimal) return Decimal.apply(new BigDecimal(text), decimal.precision(), decimal.scale());
    if (type.equals(DataTypes.DateType)) return (int) LocalDate.parse(text).toEpochDay();
    if (type.equals(DataTypes.BooleanType)) return Boolean.valueOf(text);
    if (type.equals(DataTypes.ByteType)) return Byte.valueOf(text);
    if (type.equals(DataTypes.ShortType)) return Short.valueOf(text);
    if (type.equals(DataTypes.IntegerType)) return Integer.valueOf(text);
    if (type.equals(DataTypes.LongType)) return Long.valueOf(text);
    return UTF8String.fromString(text);
  }

  private static RuntimeException refused(String column, String table, String why) {
    return Told.error("INVALID_ARGUMENT", "column '" + column + "' of table " + table + " is a partition column: " + why, null);
  }

  private static String nameOf(Object value) {
    if (value == null) return "__null__";
    if (value instanceof Decimal decimal) return decimal.toJavaBigDecimal().toPlainString();
    if (value instanceof UTF8String) return ofText(value.toString());
    return value.toString();
  }

  private static String ofText(String text) {
    if (text.isEmpty()) return "__empty__";
    // What the encoding leaves as it is, and Python's does not, is * alone.
    String name = URLEncoder.encode(text, StandardCharsets.UTF_8).replace("%", "~").replace("*", "~2A");
    if (name.startsWith("__")) name = "~5F" + name.substring(1);
    return name.length() <= MAX_CHARS ? name : name.substring(0, KEPT_CHARS) + "~~" + hash(text);
  }

  private static String hash(String text) {
    try {
      byte[] found = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
      return HexFormat.of().formatHex(found).substring(0, HASH_CHARS);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }
}

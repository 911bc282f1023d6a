package txnstatus.spark;

import java.util.Set;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What programs say to a reader or a writer by `option`. None is passed over: other lakes' `replaceWhere` says which rows go. */
final class Options {
  /** Spark has understood these by itself. */
  private static final Set<String> TIMES = Set.of("versionasof", "timestampasof");
  /** What the names of Spark's own begin with. */
  private static final String SPARKS = "__";

  private Options() {}

  static void checkOfRead(CaseInsensitiveStringMap given, String table) { check(given, TIMES, table); }
  static void checkOfWrite(CaseInsensitiveStringMap given, String table) { check(given, Set.of(), table); }

  private static void check(CaseInsensitiveStringMap given, Set<String> known, String table) {
    for (String each : given.asCaseSensitiveMap().keySet()) {
      if (known.contains(each.toLowerCase(java.util.Locale.ROOT)) || each.startsWith(SPARKS)) continue;
      throw Told.error("INVALID_ARGUMENT", "option " + each + ": there is none for " + table + "; docs/sql.md says what does the like", null);
    }
  }
}

package txnstatus.spark;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import scala.jdk.javaapi.CollectionConverters;

/** What has another shape in some release of Spark, so that no code can be compiled for all of them. */
final class Releases {
  private Releases() {}

  static CatalogPlugin currentCatalog(SparkSession session) { return (CatalogPlugin) manager(session, "currentCatalog"); }
  static String[] currentNamespace(SparkSession session) { return (String[]) manager(session, "currentNamespace"); }
  static CatalogPlugin catalog(SparkSession session, String name) { return (CatalogPlugin) manager(session, "catalog", name); }

  /** The manager of catalogs is a class up to 4.1, and an interface from 4.2 on. */
  private static Object manager(SparkSession session, String method, Object... arguments) {
    return called(session.sessionState().catalogManager(), method, arguments);
  }

  /** Forgets what is cached of a table, and all that depends on it. From 4.1 on it is also said whether to wait for that. */
  static void uncache(SparkSession session, List<String> table) {
    Object[] arguments = {session, CollectionConverters.asScala(table).toSeq(), true, false};
    Object manager = session.sharedState().cacheManager();
    boolean hasAll = Arrays.stream(manager.getClass().getMethods()).anyMatch(each -> each.getName().equals("uncacheTableOrView") && each.getParameterCount() == 4);
    called(manager, "uncacheTableOrView", hasAll ? arguments : Arrays.copyOf(arguments, 3));
  }

  private static Object called(Object of, String name, Object... arguments) {
    for (Method each : of.getClass().getMethods()) {
      if (!each.getName().equals(name) || each.getParameterCount() != arguments.length) continue;
      try {
        return each.invoke(of, arguments);
      } catch (InvocationTargetException e) {
        throw e.getCause() instanceof RuntimeException known ? known : new IllegalStateException(e.getCause());
      } catch (IllegalAccessException e) {
        throw new IllegalStateException(e);
      }
    }
    throw new IllegalStateException("this release of Spark has no " + of.getClass().getName() + "." + name);
  }
}

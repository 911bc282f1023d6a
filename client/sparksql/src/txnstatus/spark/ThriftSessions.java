package txnstatus.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.hive.thriftserver.ui.SparkListenerThriftServerOperationClosed;
import org.apache.spark.sql.hive.thriftserver.ui.SparkListenerThriftServerOperationStart;
import org.apache.spark.sql.hive.thriftserver.ui.SparkListenerThriftServerSessionClosed;

/**
 * Of which session of a Thrift server a statement is: a thread that runs one knows no more than the group of its jobs, and whose
 * that is was told as the statement began. So this listens from the beginning of the server's first session on.
 */
final class ThriftSessions extends SparkListener {
  private static final String EVENTS = "org.apache.spark.sql.hive.thriftserver.ui.SparkListenerThriftServer";
  private static final Map<SparkContext, ThriftSessions> known = new WeakHashMap<>();

  /** By groups of jobs: of statements that run, and of those in `awaited`. Of the thread that tells. */
  private final Map<String, String> sessions = new HashMap<>();
  private final Map<String, SessionEnd> awaited = new ConcurrentHashMap<>();

  static void listen(SparkContext context) {
    synchronized (known) {
      if (known.containsKey(context)) return;
      known.put(context, new ThriftSessions());
      context.addSparkListener(known.get(context));
    }
  }

  /** The end of the session of the statement that runs with these jobs, if it is one of a Thrift server. */
  static void await(SparkContext context, String group, SessionEnd end) {
    synchronized (known) {
      if (group != null && known.containsKey(context)) known.get(context).awaited.put(group, end);
    }
  }

  @Override public void onOtherEvent(SparkListenerEvent event) {
    // A Spark without the server has no such classes.
    if (event.getClass().getName().startsWith(EVENTS)) Events.told(event, this);
  }

  private void ended(String session) {
    sessions.entrySet().removeIf(each -> {
      if (!each.getValue().equals(session)) return false;
      SessionEnd end = awaited.remove(each.getKey());
      if (end != null) end.come();
      return true;
    });
  }

  private static final class Events {
    static void told(SparkListenerEvent event, ThriftSessions of) {
      if (event instanceof SparkListenerThriftServerOperationStart start) of.sessions.put(start.groupId(), start.sessionId());
      else if (event instanceof SparkListenerThriftServerOperationClosed closed && !of.awaited.containsKey(closed.id())) of.sessions.remove(closed.id());
      else if (event instanceof SparkListenerThriftServerSessionClosed closed) of.ended(closed.sessionId());
    }
  }
}

package txnstatus.spark;

import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.connect.service.ExecuteJobTag$;
import org.apache.spark.sql.connect.service.SparkListenerConnectSessionClosed;
import scala.collection.immutable.Set;

/**
 * Tells Python that a server has closed a session in which a transaction was begun: its client has ended it, or is gone. What the
 * session was made of goes when memory is collected, and until then others would wait for its locks. Likewise as Spark is stopped.
 */
final class SessionEnd extends SparkListener {
  private static final String TAGS = "SparkConnect_", CLOSED = "org.apache.spark.sql.connect.service.SparkListenerConnectSessionClosed";

  private final SparkContext context = TxnScan.context();
  private final Bridge bridge;
  /** Of the statement that begins, where it is one of Spark Connect: a tag of its jobs names its session. */
  private final Set<String> tags;
  private volatile boolean hasCome;

  /** That of the session of the statement that runs. */
  SessionEnd(Bridge bridge) {
    this.bridge = bridge;
    this.tags = (Set<String>) context.getJobTags().filter(tag -> tag.startsWith(TAGS));
    context.addSparkListener(this);
    if (tags.isEmpty()) ThriftSessions.await(context, context.getLocalProperty("spark.jobGroup.id"), this);
  }

  /** A transaction has begun. Who closes a session interrupts its statements first, and does not wait for their end. */
  void begun() {
    if (hasCome || Thread.currentThread().isInterrupted()) tell();
  }

  @Override public void onOtherEvent(SparkListenerEvent event) {
    // A Spark without the server has no such class.
    if (event.getClass().getName().equals(CLOSED) && Connect.closes(event, tags)) come();
  }

  @Override public void onApplicationEnd(SparkListenerApplicationEnd ended) { come(); }

  /** Other listeners wait for this one: Python is told by a thread of its own. */
  void come() {
    hasCome = true;
    Thread teller = new Thread(() -> {
      context.removeSparkListener(this);
      tell();
    }, "txn-session-end");
    teller.setDaemon(true);
    teller.start();
  }

  private void tell() {
    try {
      bridge.call("closed", Bridge.request());
    } catch (RuntimeException e) {
      System.getLogger("txnstatus.spark").log(System.Logger.Level.WARNING, "the transaction of a session that was closed could not be aborted: " + e);
    }
  }

  private static final class Connect {
    static boolean closes(SparkListenerEvent event, Set<String> tags) {
      var closed = (SparkListenerConnectSessionClosed) event;
      return tags.exists(tag -> tag.startsWith(ExecuteJobTag$.MODULE$.apply(closed.userId(), closed.sessionId(), "")));
    }
  }
}

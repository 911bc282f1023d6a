package txnstatus.spark;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.JobConf;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.util.SerializableConfiguration;
import scala.reflect.ClassTag$;

/**
 * Hadoop's configuration that is sent to executors, as each task has one of its own: a copy made once, and not once a file.
 *
 * What opens a file makes a JobConf of any other configuration, a copy with all that Hadoop sets by default, which was half
 * of what a scan of small files took.
 */
final class TaskSettings extends Broadcast<SerializableConfiguration> {
  private static final String FILTER = "parquet.private.read.filter.predicate";

  private final Broadcast<SerializableConfiguration> sent;
  /** Of each thread, since what opens a file writes its filter there, and reads it again. A task has this object by itself. */
  private transient ThreadLocal<SerializableConfiguration> own;

  TaskSettings(Broadcast<SerializableConfiguration> sent) {
    super(sent.id(), ClassTag$.MODULE$.apply(SerializableConfiguration.class));
    this.sent = sent;
  }

  @Override public synchronized SerializableConfiguration getValue() {
    if (own == null) own = ThreadLocal.withInitial(() -> new SerializableConfiguration(new JobConf(sent.value().value())));
    return own.get();
  }

  /** What the reader of one file has set is not what the next one goes by. */
  static void forget(Broadcast<SerializableConfiguration> settings) {
    Configuration own = settings.value().value();
    own.unset(FILTER);
    own.unset(FILTER + ".human.readable");
  }

  @Override public void doUnpersist(boolean blocking) { sent.unpersist(blocking); }
  @Override public void doDestroy(boolean blocking) { sent.destroy(blocking); }
}

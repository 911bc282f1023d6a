package txnstatus.spark;

import org.apache.spark.SparkContext;

/**
 * Why a statement's job has failed. Spark has a write given up without a word about that, and raises it to the statement's program
 * alone; but whoever goes on in the transaction is to be told, too. The jobs have the statement as a tag, and of what became of them
 * Spark keeps a record for its UI.
 */
final class WhyFailed {
  /** Listeners write the record, each event after the other. */
  private static final long LISTENERS_MILLIS = 2_000;
  private static final String TAG = "txnstatus_";

  /** Jobs of this thread are the statement's. */
  static void mark(String statement) { TxnScan.context().addJobTag(TAG + statement); }

  static void unmark(String statement) { TxnScan.context().removeJobTag(TAG + statement); }

  /** What Spark says of the stage that failed; null: none has, or it is not known. */
  static String of(String statement) {
    boolean interrupted = Thread.interrupted();
    try {
      SparkContext context = TxnScan.context();
      context.listenerBus().waitUntilEmpty(LISTENERS_MILLIS);
      for (int job : context.statusTracker().getJobIdsForTag(TAG + statement)) {
        for (int stage : context.statusTracker().getJobInfo(job).get().stageIds()) {
          var why = context.statusStore().lastStageAttempt(stage).failureReason();
          if (why.isDefined()) return why.get();
        }
      }
    } catch (Exception e) { // Scala declares none of them; the statement fails as it does
      interrupted |= e instanceof InterruptedException;
      System.getLogger("txnstatus.spark").log(System.Logger.Level.DEBUG, "why " + statement + " failed is not known: " + e);
    } finally {
      if (interrupted) Thread.currentThread().interrupt();
    }
    return null;
  }
}

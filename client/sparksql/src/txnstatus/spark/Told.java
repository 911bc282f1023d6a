package txnstatus.spark;

/**
 * Errors of the service's that begin here: Python finds the code in their text, and raises its own (txnclient/sparksql/failures.py).
 * They are of Java's own classes, since some come from tasks: those of a jar that was added to a session are others there.
 */
final class Told {
  private Told() {}

  static IllegalStateException error(String code, String message, Throwable cause) {
    return new IllegalStateException("[txnstatus " + code + "] " + message, cause);
  }
}

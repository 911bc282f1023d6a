package txnstatus.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.ref.WeakReference;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;

/** A snapshot that Python keeps for as long as any table of it is reachable here. */
final class Seen {
  final String id;
  final boolean isChosen;
  /** Of rows in files of all its tables. */
  final Places places = new Places();

  private Seen(String id, boolean isChosen, Bridge bridge) {
    this.id = id;
    this.isChosen = isChosen;
    bridge.tellWhenGone(this, "release", Bridge.request().put("seen", id));
  }

  /** All tables of one statement are of one snapshot: those that one run of Spark's analyzer loads. */
  static final class Sharing {
    private final Bridge bridge;
    private final ThreadLocal<Last> last = new ThreadLocal<>();

    private record Last(WeakReference<Object> run, WeakReference<Seen> seen) {}

    Sharing(Bridge bridge) { this.bridge = bridge; }

    /**
     * Whether a run of the analyzer that has found a relation asks. A run makes itself a context, whose cache has what it has
     * found; those within, of views, have the same cache. Outside of a run there is a default one, and nothing in its cache.
     */
    static boolean isWithinRun() { return !AnalysisContext.get().relationCache().isEmpty(); }

    Seen seen(ObjectNode at) {
      Object run = AnalysisContext.get().relationCache();
      Last before = last.get();
      Seen known = at.isEmpty() && isWithinRun() && before != null && before.run.get() == run ? before.seen.get() : null;
      if (known != null) return known;
      Seen seen = new Seen(bridge.call("see", at).asText(), !at.isEmpty(), bridge);
      if (at.isEmpty()) last.set(new Last(new WeakReference<>(run), new WeakReference<>(seen)));
      return seen;
    }
  }
}

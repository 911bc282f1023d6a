package txnstatus.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Iterator;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.read.Scan;

/** A script of Spark's own as one transaction: it commits as the script ends, and is rolled back where that fails. */
final class Atomic extends TxnProcedure {
  static final String NAME = "atomic";

  Atomic(JsonNode told, Bridge bridge) { super(NAME, told, bridge); }

  @Override public Iterator<Scan> call(InternalRow given) {
    run("begin_script", Bridge.request());
    Iterator<Scan> result;
    try {
      Dataset<Row> last = TxnScan.session().sql(given.getUTF8String(0).toString());
      result = result(last.schema(), last.queryExecution().executedPlan().executeCollect());
    } catch (Throwable e) {
      try {
        run("rollback_script", Bridge.request().put("because", String.valueOf(e.getMessage())));
      } catch (RuntimeException whyNot) {
        e.addSuppressed(whyNot);
      }
      throw e;
    }
    run("commit_script", Bridge.request());
    return result;
  }
}

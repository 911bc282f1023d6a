package txnstatus.spark;

import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.classic.SparkSession;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** For `spark.sql.extensions`: sessions know BEGIN, COMMIT and their like from their first statement on. */
public final class TxnExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectParser((session, parser) -> {
      ThriftSessions.listen(session.sparkContext());
      return StatementParser.over((SparkSession) session, parser);
    });
    return BoxedUnit.UNIT;
  }
}

package txnstatus.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.UUID;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.sources.InsertableRelation;

/** Rows that a statement adds where Spark has no file system: Python writes them, of a view, in tasks, and commits. */
record FarWrite(TxnTable table, ObjectNode mode) implements V1Write {
  /** Raises what says that the statement cannot be. */
  FarWrite {
    String asked = mode.get("mode").asText();
    if (!asked.equals("append") && !asked.equals("overwrite")) table.bridge.call("far", Bridge.request().put("table", table.table));
  }

  @Override public InsertableRelation toInsertableRelation() {
    return (rows, overwrites) -> {
      SparkSession spark = (SparkSession) rows.sparkSession();
      String view = "_txn_" + UUID.randomUUID().toString().replace("-", "");
      rows.createOrReplaceGlobalTempView(view);
      try {
        table.bridge.call("write", TxnWrite.asked(table, mode, spark).put("view", view));
      } finally {
        spark.catalog().dropGlobalTempView(view);
      }
    };
  }
}

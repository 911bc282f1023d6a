package txnstatus.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** A procedure, with the parameters and columns that Python says: `CALL txn.system.commit()`. Python runs it. */
class TxnProcedure implements UnboundProcedure, BoundProcedure {
  private final String name;
  private final JsonNode told;
  private final ProcedureParameter[] parameters;
  private final Bridge bridge;

  TxnProcedure(String name, JsonNode told, Bridge bridge) {
    this.name = name;
    this.told = told;
    this.bridge = bridge;
    List<ProcedureParameter> found = new ArrayList<>();
    for (JsonNode each : told.get("parameters")) {
      var built = ProcedureParameter.in(each.get("name").asText(), DataType.fromDDL(each.get("type").asText()));
      if (each.has("default")) built.defaultValue(each.get("default").asText());
      found.add(built.build());
    }
    parameters = found.toArray(new ProcedureParameter[0]);
  }

  @Override public final String name() { return name; }
  @Override public final String description() { return told.get("description").asText(); }
  @Override public final BoundProcedure bind(StructType given) { return this; }
  @Override public final ProcedureParameter[] parameters() { return parameters; }
  @Override public final boolean isDeterministic() { return false; }

  @Override public Iterator<Scan> call(InternalRow given) {
    ObjectNode arguments = Bridge.request();
    for (int at = 0; at < parameters.length; at++) {
      DataType type = parameters[at].dataType();
      arguments.set(parameters[at].name(), json(given.isNullAt(at) ? null : given.get(at, type), type));
    }
    String described = told.get("columns").asText();
    StructType columns = described.isEmpty() ? new StructType() : StructType.fromDDL(described);
    List<InternalRow> rows = new ArrayList<>();
    for (JsonNode each : run(name, arguments)) {
      Object[] row = new Object[columns.size()];
      for (int at = 0; at < row.length; at++) row[at] = value(each.get(at), columns.apply(at).dataType());
      rows.add(new GenericInternalRow(row));
    }
    return result(columns, rows.toArray(new InternalRow[0]));
  }

  /** The rows that it answers. Spark forgets what it has cached of tables that the session sees otherwise from here on. */
  final JsonNode run(String procedure, ObjectNode arguments) {
    ObjectNode request = Bridge.request().put("procedure", procedure);
    request.set("arguments", arguments);
    SessionEnd end = procedure.startsWith("begin") ? bridge.end() : null;
    JsonNode rows = bridge.call("procedure", request);
    if (end != null) end.begun();
    if (told.get("moves").asBoolean()) forgetCached();
    return rows;
  }

  private void forgetCached() {
    SparkSession session = TxnScan.session();
    if (session.sharedState().cacheManager().isEmpty()) return;
    for (JsonNode table : bridge.call("names", Bridge.request())) {
      List<String> parts = new ArrayList<>();
      for (JsonNode part : table) parts.add(part.asText());
      Releases.uncache(session, parts);
    }
  }

  static Iterator<Scan> result(StructType columns, InternalRow[] rows) {
    LocalScan all = new LocalScan() {
      @Override public StructType readSchema() { return columns; }
      @Override public InternalRow[] rows() { return rows; }
    };
    return List.<Scan>of(all).iterator();
  }

  private static JsonNode json(Object value, DataType type) {
    if (value instanceof MapData map) {
      ObjectNode found = Bridge.request();
      for (int at = 0; at < map.numElements(); at++) {
        found.put(map.keyArray().getUTF8String(at).toString(), map.valueArray().isNullAt(at) ? null : map.valueArray().getUTF8String(at).toString());
      }
      return found;
    }
    if (value instanceof ArrayData array) {
      ArrayNode found = Bridge.JSON.createArrayNode();
      DataType each = ((ArrayType) type).elementType();
      for (int at = 0; at < array.numElements(); at++) found.add(json(array.isNullAt(at) ? null : array.get(at, each), each));
      return found;
    }
    return Bridge.JSON.valueToTree(value instanceof UTF8String text ? text.toString() : value);
  }

  /** Numbers, and times as microseconds, are Java's longs. */
  private static Object value(JsonNode told, DataType type) {
    if (told.isNull()) return null;
    if (type instanceof StringType) return UTF8String.fromString(told.asText());
    return type instanceof BooleanType ? (Object) told.asBoolean() : (Object) told.asLong();
  }
}

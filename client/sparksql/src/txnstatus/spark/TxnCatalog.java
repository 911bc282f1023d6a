package txnstatus.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Tables of a cluster of txnstatus, as Spark plans with them. What a name means and what is seen, Python says. */
public final class TxnCatalog implements StagingTableCatalog, SupportsNamespaces, ProcedureCatalog {
  static final String SYSTEM = "system";
  private static final String IN_DOCUMENTS = "docs/sql.md says what is";
  private static final String FIELDS_STAY = "fields of structs stay; add a column of the type that is wanted, UPDATE it from this one, and drop this one";

  private String name;
  private Bridge bridge;
  private Seen.Sharing sharing;

  @Override public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    bridge = new Bridge(name, options, TxnScan.session().sessionUUID());
    sharing = new Seen.Sharing(bridge);
    String build = TxnCatalog.class.getPackage().getImplementationVersion();
    bridge.call("hello", Bridge.request().put("build", build));
    bridge.tellWhenGone(this, "bye", Bridge.request());
    StatementParser.install(TxnScan.session());
    FewSought.install(TxnScan.session());
  }

  Bridge bridge() { return bridge; }

  @Override public String name() { return name; }

  @Override public Set<TableCatalogCapability> capabilities() { return Set.of(TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE); }

  // ---- tables

  @Override public Table loadTable(Identifier id) throws NoSuchTableException { return load(id, Bridge.request()); }

  @Override public Table loadTable(Identifier id, String version) throws NoSuchTableException {
    return load(id, Bridge.request().put("version", version));
  }

  @Override public Table loadTable(Identifier id, long micros) throws NoSuchTableException {
    return load(id, Bridge.request().put("micros", micros));
  }

  private Table load(Identifier id, ObjectNode at) throws NoSuchTableException {
    if (id.namespace().length != 1) throw new NoSuchTableException(id);
    String table = named(id);
    try {
      if (isSystem(id.namespace())) {
        if (at.isEmpty()) return new SystemTable(name, id.name().toLowerCase(Locale.ROOT), bridge);
        throw Told.error("INVALID_ARGUMENT", table + " shows what is so now, and has no versions", null);
      }
      Seen seen = sharing.seen(at);
      JsonNode answer = bridge.call("load", Bridge.request().put("table", table).put("seen", seen.id));
      return new TxnTable(name, table, answer, seen, bridge);
    } catch (PythonError e) {
      if (e.is("NOT_FOUND") && at.isEmpty()) throw new NoSuchTableException(id);
      throw e; // of a time that somebody chose it says since when there is the table
    }
  }

  @Override public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    List<Identifier> found = new ArrayList<>();
    if (isSystem(namespace)) for (JsonNode each : bridge.call("system tables", Bridge.request())) found.add(Identifier.of(namespace, each.asText()));
    for (String[] each : names()) if (namespace.length == 1 && each[0].equals(namespace[0])) found.add(Identifier.of(namespace, each[1]));
    if (found.isEmpty()) throw new NoSuchNamespaceException(namespace);
    return found.toArray(new Identifier[0]);
  }

  private List<String[]> names() {
    List<String[]> found = new ArrayList<>();
    for (JsonNode each : bridge.call("tables", Bridge.request())) found.add(each.asText().split("\\.", 2));
    return found;
  }

  @Override public Table alterTable(Identifier id, TableChange... changes) throws NoSuchTableException {
    ObjectNode request = Bridge.request().put("table", named(id)), properties = request.putObject("properties");
    if (Seen.Sharing.isWithinRun()) {
      // Spark's analyzer itself asks, WITH SCHEMA EVOLUTION: the statement goes on to read as of its time, in the columns of now.
      for (TableChange each : changes) if (!(each instanceof TableChange.AddColumn)) throw refused("WITH SCHEMA EVOLUTION, " + said(each));
      request.put("seen", sharing.seen(Bridge.request()).id);
    }
    ArrayNode columns = request.putArray("columns");
    if (has(TableChange.DeleteColumn.class, changes) && has(TableChange.AddColumn.class, changes)) {
      throw refused("ALTER TABLE ... REPLACE COLUMNS"); // their values would go, also of those that are called as before
    }
    for (TableChange each : changes) {
      if (each instanceof TableChange.SetProperty set) properties.put(set.property(), set.value());
      else if (each instanceof TableChange.RemoveProperty unset) properties.putNull(unset.property());
      else if (!(each instanceof TableChange.ColumnChange change && tell(change, columns))) {
        boolean isField = each instanceof TableChange.ColumnChange of && of.fieldNames().length > 1;
        throw refused("ALTER TABLE ... " + said(each), isField ? FIELDS_STAY : IN_DOCUMENTS);
      }
    }
    try {
      bridge.call("alter", request);
    } catch (PythonError e) {
      if (e.is("NOT_FOUND")) throw new NoSuchTableException(id);
      throw e;
    }
    return loadTable(id);
  }

  /** As a statement says it. */
  private static String said(TableChange change) {
    if (!(change instanceof TableChange.ColumnChange of)) {
      return change.getClass().getSimpleName().replaceAll("(?<=[a-z])(?=[A-Z])", " ").toUpperCase(Locale.ROOT);
    }
    String column = String.join(".", of.fieldNames());
    if (change instanceof TableChange.AddColumn add) return "ADD COLUMN " + column;
    if (change instanceof TableChange.DeleteColumn) return "DROP COLUMN " + column;
    if (change instanceof TableChange.RenameColumn) return "RENAME COLUMN " + column;
    if (change instanceof TableChange.UpdateColumnType) return "ALTER COLUMN " + column + " TYPE";
    if (change instanceof TableChange.UpdateColumnDefaultValue) return "ALTER COLUMN " + column + " ... DEFAULT";
    if (change instanceof TableChange.UpdateColumnNullability to) return "ALTER COLUMN " + column + (to.nullable() ? " DROP" : " SET") + " NOT NULL";
    return "ALTER COLUMN " + column;
  }

  private static boolean has(Class<?> kind, TableChange... changes) { return Arrays.stream(changes).anyMatch(kind::isInstance); }

  /** Whether it is a change of a whole column that there is, or a new field of a struct; then it is told. */
  private static boolean tell(TableChange.ColumnChange change, ArrayNode columns) {
    ObjectNode told = Bridge.request().put("name", change.fieldNames()[0]);
    if (change.fieldNames().length > 1) {
      if (!(change instanceof TableChange.AddColumn add) || add.position() != null || add.defaultValue() != null) return false;
      for (String each : Arrays.asList(add.fieldNames()).subList(1, add.fieldNames().length)) told.withArrayProperty("field").add(each);
      told.set("type", Bridge.parse(add.dataType().json()));
      told.put("nullable", add.isNullable());
      columns.add(told);
      return true;
    }
    if (change instanceof TableChange.AddColumn add) {
      told.set("type", Bridge.parse(add.dataType().json()));
      told.put("nullable", add.isNullable());
      if (add.comment() != null) told.put("comment", add.comment());
      if (add.position() != null) told.put("after", before(add.position()));
      if (add.defaultValue() != null) told.put("default", Defaults.text(add.defaultValue().getSql(), add.fieldNames()[0]));
    } else if (change instanceof TableChange.UpdateColumnComment update) {
      told.put("comment", update.newComment() == null ? "" : update.newComment());
    } else if (change instanceof TableChange.UpdateColumnPosition update) {
      told.put("after", before(update.position()));
    } else if (change instanceof TableChange.UpdateColumnNullability update && update.nullable()) {
      told.put("takes_nulls", true);
    } else if (change instanceof TableChange.UpdateColumnType update) {
      told.set("widen", Bridge.parse(update.newDataType().json()));
    } else if (change instanceof TableChange.RenameColumn rename) {
      told.put("rename", rename.newName());
    } else if (change instanceof TableChange.DeleteColumn) {
      told.put("drop", true);
    } else if (change instanceof TableChange.UpdateColumnDefaultValue update) {
      String sql = update.newDefaultValue();
      String text = sql == null || sql.isEmpty() ? null : Defaults.text(sql, update.fieldNames()[0]);
      if (text == null) told.put("drop_default", true);
      else told.put("default", text);
    } else {
      return false;
    }
    columns.add(told);
    return true;
  }

  /** The column after which it is; none for the first one. */
  private static String before(TableChange.ColumnPosition position) {
    return position instanceof TableChange.After after ? after.column() : "";
  }

  @Override public Table createTable(Identifier id, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    try {
      bridge.call("create", described(id, columns, partitions, properties));
      return load(id, Bridge.request());
    } catch (PythonError e) {
      if (e.is("ALREADY_EXISTS")) throw new TableAlreadyExistsException(id);
      throw e;
    } catch (NoSuchTableException e) {
      throw new IllegalStateException("table " + id + " was created, and dropped at once by somebody else");
    }
  }

  private ObjectNode described(Identifier id, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws NoSuchNamespaceException {
    if (id.namespace().length != 1) throw new NoSuchNamespaceException(id.namespace());
    ObjectNode request = Bridge.request().put("table", named(id));
    request.set("schema", Bridge.parse(CatalogV2Util.v2ColumnsToStructType(columns).json()));
    ObjectNode defaults = request.putObject("defaults");
    for (Column each : columns) if (each.defaultValue() != null) defaults.put(each.name(), Defaults.text(each.defaultValue().getSql(), each.name()));
    request.putArray("partition_by");
    for (Transform each : partitions) {
      if (!each.name().equals("identity")) throw refused("CREATE TABLE ... PARTITIONED BY (" + each + ")");
      request.withArrayProperty("partition_by").add(String.join(".", each.references()[0].fieldNames()));
    }
    request.set("properties", Bridge.JSON.valueToTree(properties));
    return request;
  }

  private static String named(Identifier id) { return String.join(".", id.namespace()) + "." + id.name(); }

  // ---- tables that a statement makes and fills

  @Override public StagedTable stageCreate(Identifier id, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return new Staged((TxnTable) createTable(id, columns, partitions, properties), true);
  }

  @Override public StagedTable stageReplace(Identifier id, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws NoSuchTableException, NoSuchNamespaceException {
    TxnTable there = (TxnTable) loadTable(id);
    bridge.call("replace", described(id, columns, partitions, properties));
    return new Staged(there, false);
  }

  @Override public StagedTable stageCreateOrReplace(Identifier id, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws NoSuchNamespaceException {
    try {
      return stageReplace(id, columns, partitions, properties);
    } catch (NoSuchTableException e) {
      try {
        return stageCreate(id, columns, partitions, properties);
      } catch (TableAlreadyExistsException e2) {
        throw new IllegalStateException("table " + id + " was created by somebody else just now: run the statement again", e2);
      }
    }
  }

  @Override public boolean dropTable(Identifier id) {
    return id.namespace().length == 1 && bridge.call("drop", Bridge.request().put("table", named(id))).asBoolean();
  }

  /** A name alone is of the table's database; Spark does not take the catalog's off. */
  @Override public void renameTable(Identifier from, Identifier to) throws NoSuchTableException, TableAlreadyExistsException {
    String[] space = to.namespace();
    if (space.length == 0) space = from.namespace();
    else if (space.length > 1 && space[0].equals(name)) space = Arrays.copyOfRange(space, 1, space.length);
    Identifier wanted = Identifier.of(space, to.name());
    try {
      bridge.call("rename", Bridge.request().put("table", named(from)).put("to", named(wanted)));
    } catch (PythonError e) {
      if (e.is("NOT_FOUND")) throw new NoSuchTableException(from);
      if (e.is("ALREADY_EXISTS")) throw new TableAlreadyExistsException(wanted);
      throw e;
    }
  }

  // ---- procedures: Python says which there are

  @Override public UnboundProcedure loadProcedure(Identifier id) {
    if (!isSystem(id.namespace())) throw new IllegalArgumentException("there is no procedure " + id + ": those of catalog " + name + " are in " + name + ".system");
    JsonNode told = bridge.call("describe", Bridge.request().put("procedure", id.name()));
    return id.name().equals(Atomic.NAME) ? new Atomic(told, bridge) : new TxnProcedure(id.name(), told, bridge);
  }

  /** Spark asks from 4.1 on. */
  @Override public Identifier[] listProcedures(String[] namespace) {
    List<Identifier> found = new ArrayList<>();
    if (isSystem(namespace)) for (JsonNode each : bridge.call("procedures", Bridge.request())) found.add(Identifier.of(namespace, each.asText()));
    return found.toArray(new Identifier[0]);
  }

  private static boolean isSystem(String[] namespace) { return namespace.length == 1 && namespace[0].equalsIgnoreCase(SYSTEM); }

  // ---- databases: there are those in which there are tables

  @Override public String[][] listNamespaces() {
    Set<String> found = new LinkedHashSet<>();
    for (String[] each : names()) found.add(each[0]);
    return found.stream().map(each -> new String[] {each}).toArray(String[][]::new);
  }

  @Override public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length == 0) return listNamespaces();
    loadNamespaceMetadata(namespace);
    return new String[0][];
  }

  @Override public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    if (isSystem(namespace)) return Map.of("comment", "what the cluster knows of itself");
    if (namespace.length == 1) for (String[] each : listNamespaces()) if (each[0].equals(namespace[0])) return Map.of();
    throw new NoSuchNamespaceException(namespace);
  }

  @Override public void createNamespace(String[] namespace, Map<String, String> metadata) { throw refused("CREATE DATABASE"); }
  @Override public void alterNamespace(String[] namespace, NamespaceChange... changes) { throw refused("ALTER DATABASE"); }
  @Override public boolean dropNamespace(String[] namespace, boolean cascade) { throw refused("DROP DATABASE"); }

  private UnsupportedOperationException refused(String statement) { return refused(statement, IN_DOCUMENTS); }

  private UnsupportedOperationException refused(String statement, String instead) {
    return new UnsupportedOperationException(statement + " is not possible in catalog " + name + ": " + instead);
  }
}

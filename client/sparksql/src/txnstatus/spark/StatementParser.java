package txnstatus.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.antlr.v4.runtime.CharStreams;
import org.antlr.v4.runtime.Token;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.catalyst.parser.ParameterContext;
import org.apache.spark.sql.catalyst.parser.ParameterHandler;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.parser.SqlBaseLexer;
import org.apache.spark.sql.catalyst.parser.UpperCaseCharStream;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SessionState;
import scala.Tuple2;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's parser, and the statements that it does not know: what it refuses is shown to Python, which says what to call instead,
 * or that it is no statement of ours either. So nothing changes for what Spark, or another extension, understands.
 */
final class StatementParser implements InvocationHandler {
  private static final String PREFIX = "spark.sql.catalog.";

  private final SparkSession session;
  private final ParserInterface spark;

  private StatementParser(SparkSession session, ParserInterface spark) {
    this.session = session;
    this.spark = spark;
  }

  /** A parser has more methods in some releases of Spark than in others: all that are there go on to Spark's own. */
  static ParserInterface over(SparkSession session, ParserInterface spark) {
    ClassLoader loader = StatementParser.class.getClassLoader();
    return (ParserInterface) Proxy.newProxyInstance(loader, new Class<?>[] {ParserInterface.class}, new StatementParser(session, spark));
  }

  /**
   * For a session that runs already: extensions come too late for it. Where its parser cannot be exchanged, CALL does what the
   * statements do.
   */
  static void install(SparkSession session) {
    SessionState state = session.sessionState();
    ParserInterface there = state.sqlParser();
    if (Proxy.isProxyClass(there.getClass()) && Proxy.getInvocationHandler(there) instanceof StatementParser) return;
    try {
      Field parser = SessionState.class.getDeclaredField("sqlParser");
      parser.setAccessible(true);
      parser.set(state, over(session, there));
    } catch (ReflectiveOperationException | RuntimeException e) {
      System.getLogger("txnstatus.spark").log(System.Logger.Level.WARNING, "BEGIN, COMMIT and their like can only be called here: " + e);
    }
  }

  @Override public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    try {
      return method.invoke(spark, arguments);
    } catch (InvocationTargetException e) {
      // parsePlanWithParameters is there from 4.1 on.
      if (!method.getName().startsWith("parsePlan") || !(e.getCause() instanceof ParseException)) throw told(method, e.getCause());
      JsonNode meant = meant((String) arguments[0]);
      if (meant == null) throw e.getCause();
      if (meant.has("script")) check(method, arguments, meant.get("script").asText());
      arguments[0] = call(meant, arguments.length > 1 ? arguments[1] : null);
    }
    try {
      return method.invoke(spark, arguments);
    } catch (InvocationTargetException e) {
      throw told(method, e.getCause());
    }
  }

  /** What a proxy may throw: an exception of Scala's that its interface does not declare would lose its message. */
  private static Throwable told(Method method, Throwable error) {
    if (error instanceof RuntimeException || !(error instanceof SparkThrowable known)) return error;
    for (Class<?> declared : method.getExceptionTypes()) if (declared.isInstance(error)) return error;
    return new SparkRuntimeException(
        known.getCondition(), Map$.MODULE$.from(CollectionConverters.asScala(known.getMessageParameters())), error, known.getQueryContext(), "");
  }

  /** What is wrong in a script is found before anything begins, and shown in the text of the program. */
  private void check(Method method, Object[] arguments, String script) throws Throwable {
    Object[] given = arguments.clone();
    given[0] = script;
    try {
      method.invoke(spark, given);
    } catch (InvocationTargetException e) {
      throw told(method, e.getCause() instanceof ParseException wrong ? wrong.withCommand((String) arguments[0]) : e.getCause());
    }
  }

  private static String call(JsonNode meant, Object parameters) {
    String call = meant.get("call").asText();
    return meant.has("script") ? call + "(script => " + literal(bound(meant.get("script").asText(), parameters)) + ")" : call;
  }

  /** The CALL that a statement stands for, and the script where it has one; null: it is none of ours. */
  private JsonNode meant(String text) {
    List<TxnCatalog> catalogs = catalogs();
    if (catalogs.isEmpty()) return null;
    ObjectNode request = described(text);
    for (TxnCatalog each : catalogs) {
      JsonNode answer;
      try {
        answer = each.bridge().call("statement", request);
      } catch (PythonError e) {
        if (e.is("INVALID_ARGUMENT")) throw e;
        continue; // it is detached: another one may answer
      } catch (IllegalStateException e) {
        continue; // and so may it where its process is gone
      }
      return answer.isNull() ? null : answer;
    }
    return null;
  }

  private ObjectNode described(String text) {
    ObjectNode request = Bridge.request().put("text", text);
    ArrayNode words = request.putArray("words"), ends = request.putArray("ends");
    SqlBaseLexer lexer = new SqlBaseLexer(new UpperCaseCharStream(CharStreams.fromString(text)));
    lexer.removeErrorListeners();
    for (Token each : lexer.getAllTokens()) {
      if (each.getChannel() != Token.DEFAULT_CHANNEL) continue; // spaces and comments
      words.add(each.getText());
      ends.add(each.getStopIndex() + 1);
    }
    request.put("catalog", Releases.currentCatalog(session).name());
    request.set("namespace", Bridge.JSON.valueToTree(Releases.currentNamespace(session)));
    return request;
  }

  /** The session's catalogs of ours. One that does not load is none: its process is gone. */
  private List<TxnCatalog> catalogs() {
    List<TxnCatalog> found = new ArrayList<>();
    CollectionConverters.asJava(session.sessionState().conf().getAllConfs()).forEach((key, value) -> {
      if (!key.startsWith(PREFIX) || !value.equals(TxnCatalog.class.getName())) return;
      try {
        if (Releases.catalog(session, key.substring(PREFIX.length())) instanceof TxnCatalog ours) found.add(ours);
      } catch (RuntimeException e) {
        System.getLogger("txnstatus.spark").log(System.Logger.Level.DEBUG, key + " is not there: " + e);
      }
    });
    return found;
  }

  private static String bound(String script, Object parameters) {
    if (parameters == null) return script;
    Tuple2<String, ?> bound = ParameterHandler.substituteParameters(script, (ParameterContext) parameters);
    return bound._1();
  }

  /** Whatever is in it, and however the session reads backslashes. */
  private static String literal(String text) {
    return "CAST(X'" + HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8)) + "' AS STRING)";
  }
}

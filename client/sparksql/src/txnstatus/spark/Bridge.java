package txnstatus.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.ref.Cleaner;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Calls to the Python process that a catalog belongs to: one connection each, one line of JSON there and one back.
 *
 * It is a socket and no callback of py4j's, since Spark plans and commits in threads of its own, while the Python thread
 * that runs a statement waits within the JVM.
 */
final class Bridge {
  static final ObjectMapper JSON = new ObjectMapper();
  private static final Cleaner CLEANER = Cleaner.create();
  private static final int CONNECT_MILLIS = 10_000;
  /** Python's calls have deadlines of their own, and the end of its process ends the connection: this is the last resort. */
  private static final int ANSWER_MILLIS = 1_800_000;

  private final String catalog, id, token;
  /** Spark's id of the session. A copy of a session, as a streaming query runs in, has the same settings, and another id. */
  private final String session;
  private final int port;
  private SessionEnd end;

  Bridge(String catalog, CaseInsensitiveStringMap options, String session) {
    this.catalog = catalog;
    this.session = session;
    this.id = required(options, "id");
    this.token = required(options, "token");
    this.port = Integer.parseInt(required(options, "port"));
  }

  private String required(CaseInsensitiveStringMap options, String key) {
    String value = options.get(key);
    if (value == null) {
      throw new IllegalArgumentException("spark.sql.catalog." + catalog + "." + key + " is not set: a Python program sets it by "
          + "txnclient.sparksql.attach(spark, client, name=\"" + catalog + "\")");
    }
    return value;
  }

  static ObjectNode request() { return JSON.createObjectNode(); }

  /** Raises PythonError for an exception there, and what Told makes where nobody answers. */
  JsonNode call(String method, ObjectNode request) {
    ObjectNode call = request().put("token", token).put("catalog", id).put("method", method);
    call.set("request", request().<ObjectNode>setAll(request).put("session", session));
    String line;
    try (Socket socket = new Socket()) {
      socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), CONNECT_MILLIS);
      socket.setSoTimeout(ANSWER_MILLIS);
      socket.getOutputStream().write((call + "\n").getBytes(StandardCharsets.UTF_8));
      line = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8)).readLine();
    } catch (IOException e) {
      throw silent(method, request, e.toString(), e);
    }
    if (line == null) throw silent(method, request, "the connection ended", null);
    JsonNode answer = parse(line);
    if (answer.has("error")) throw new PythonError(answer.get("error"));
    return answer.get("answer");
  }

  /** From the first transaction on that is begun in the session. */
  synchronized SessionEnd end() {
    if (end == null) end = new SessionEnd(this);
    return end;
  }

  /** Calls once nothing refers to the object any more; nobody waits for it. The request must not refer to it. */
  void tellWhenGone(Object held, String method, ObjectNode request) {
    CLEANER.register(held, () -> {
      try {
        call(method, request);
      } catch (RuntimeException e) {
        // The process that it concerns is gone, and what it kept, too.
      }
    });
  }

  static JsonNode parse(String text) {
    try {
      return JSON.readTree(text);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }

  private IllegalStateException silent(String method, ObjectNode request, String why, IOException cause) {
    String said = "the Python process that serves catalog " + catalog + " on this machine did not answer to " + method + ": " + why;
    boolean commits = method.equals("commit") || request.path("procedure").asText().startsWith("commit");
    if (!commits) return Told.error("UNAVAILABLE", said, cause);
    return Told.error("COMMIT_UNKNOWN", said + "; whether the statement was committed is not known", cause);
  }
}

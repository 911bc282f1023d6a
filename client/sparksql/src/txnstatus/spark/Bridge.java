package txnstatus.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
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
  private static final int CONNECT_MILLIS = 10_000;
  /** Python's calls have deadlines of their own, and the end of its process ends the connection: this is the last resort. */
  private static final int ANSWER_MILLIS = 1_800_000;

  private final String catalog, id, token;
  private final int port;

  Bridge(String catalog, CaseInsensitiveStringMap options) {
    this.catalog = catalog;
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
    call.set("request", request);
    String line;
    try (Socket socket = new Socket()) {
      socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), CONNECT_MILLIS);
      socket.setSoTimeout(ANSWER_MILLIS);
      socket.getOutputStream().write((call + "\n").getBytes(StandardCharsets.UTF_8));
      line = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8)).readLine();
    } catch (IOException e) {
      throw silent(method, e.toString(), e);
    }
    if (line == null) throw silent(method, "the connection ended", null);
    JsonNode answer = parse(line);
    if (answer.has("error")) throw new PythonError(answer.get("error"));
    return answer.get("answer");
  }

  static JsonNode parse(String text) {
    try {
      return JSON.readTree(text);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }

  private IllegalStateException silent(String method, String why, IOException cause) {
    String said = "the Python process that serves catalog " + catalog + " on this machine did not answer to " + method + ": " + why;
    if (!method.equals("commit")) return Told.error("UNAVAILABLE", said, cause);
    return Told.error("COMMIT_UNKNOWN", said + "; whether the statement was committed is not known", cause);
  }
}

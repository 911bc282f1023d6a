package txnstatus.spark;

import com.fasterxml.jackson.databind.JsonNode;

/** An exception of the Python process, which raises it again where it finds the ticket (txnclient/sparksql/failures.py). */
public final class PythonError extends RuntimeException {
  private final String code;

  PythonError(JsonNode error) {
    super("[" + error.get("ticket").asText() + "] " + error.get("kind").asText() + ": " + error.get("message").asText());
    this.code = error.get("code").asText();
  }

  boolean is(String code) { return this.code.equals(code); }
}

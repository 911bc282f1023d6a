package txnstatus.spark;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.HashMap;
import org.apache.spark.broadcast.Broadcast;
import org.roaringbitmap.RoaringBitmap;

/** Deleted rows of files, by the files' URIs. */
final class DeadRows {
  private DeadRows() {}

  /**
   * Null: none of the file, as where nothing is broadcast. What is broadcast is of Java's own classes: a task may load this jar once more than the driver did,
   * and in local mode it gets the driver's very objects.
   */
  static RoaringBitmap of(String uri, Broadcast<HashMap<String, byte[]>> packed) {
    byte[] bytes = packed == null ? null : packed.value().get(uri);
    return bytes == null ? null : unpacked(bytes);
  }

  /** In the format that all of Roaring's libraries read. */
  static byte[] packed(RoaringBitmap bitmap) throws IOException {
    bitmap.runOptimize();
    ByteArrayOutputStream found = new ByteArrayOutputStream(bitmap.serializedSizeInBytes());
    bitmap.serialize(new DataOutputStream(found));
    return found.toByteArray();
  }

  static RoaringBitmap unpacked(byte[] bytes) {
    RoaringBitmap found = new RoaringBitmap();
    try {
      found.deserialize(ByteBuffer.wrap(bytes));
    } catch (IOException e) {
      throw new IllegalStateException("the positions of deleted rows are not what was sent", e);
    }
    return found;
  }
}

package txnstatus.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Where rows of a snapshot lie, each as one number: its file's in the upper half, its own there in the lower one. A MERGE
 * shuffles the places of all rows of its table: names of files would be most of what it moves.
 */
final class Places {
  /** The number of the rows that are in no file; its name is that by which Python knows them. */
  private static final int LOOSE = 0;
  private static final int ROW_BITS = 32;

  private final List<String> files = new ArrayList<>(List.of(""));
  private final Map<String, Integer> numbers = new HashMap<>(Map.of("", LOOSE));

  /** The place of a file's first row. */
  synchronized long first(String uri) {
    return (long) numbers.computeIfAbsent(uri, each -> {
      files.add(each);
      return files.size() - 1;
    }) << ROW_BITS;
  }

  synchronized String file(int number) { return files.get(number); }

  static int file(long place) { return (int) (place >>> ROW_BITS); }
  static int row(long place) { return (int) place; }
}

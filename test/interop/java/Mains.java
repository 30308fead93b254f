import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs command line programs of Kafka one after the other in one JVM, because a JVM of its own for each costs more than the program does. A line of
 * standard input for each: {"main": CLASS, "args": [...], "input": TEXT}; a line of standard output: {"code": N, "out": TEXT, "err": TEXT, "ms": N}.
 */
public final class Mains {
  /** What a program throws in place of ending the JVM. */
  @SuppressWarnings("serial")
  static final class Ended extends Error {
    Ended(int code) {
      super("exit " + code, null, false, false);
    }
  }

  /** The first code that a program ends with: some take what is thrown for an error of their own, and end once more. */
  static Integer ended;

  public static void main(String[] args) throws Exception {
    ObjectMapper json = new ObjectMapper();
    PrintStream answers = System.out;
    PrintStream errors = System.err;
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    InputStream input = System.in;
    Exit.Procedure exit = (code, message) -> {
      if (ended == null) ended = code;
      throw new Ended(code);
    };
    // A program's shutdown hooks belong to its end.
    List<Runnable> hooks = new ArrayList<>();
    Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
    for (String line; (line = lines.readLine()) != null;) {
      JsonNode call = json.readTree(line);
      String[] own = json.convertValue(call.get("args"), String[].class);
      Exit.setExitProcedure(exit);
      Exit.setHaltProcedure(exit);
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      ByteArrayOutputStream err = new ByteArrayOutputStream();
      System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
      System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
      System.setIn(new ByteArrayInputStream(call.path("input").asText("").getBytes(StandardCharsets.UTF_8)));
      long startedNanos = System.nanoTime();
      ended = null;
      int code = 0;
      try {
        Class.forName(call.get("main").asText()).getMethod("main", String[].class).invoke(null, (Object) own);
      } catch (InvocationTargetException error) {
        Throwable cause = error.getCause();
        if (!(cause instanceof Ended)) {
          code = 1;
          cause.printStackTrace();
        }
      } finally {
        hooks.forEach(Runnable::run);
        hooks.clear();
        System.out.flush();
        System.err.flush();
        System.setOut(answers);
        System.setErr(errors);
        System.setIn(input);
      }
      long ms = (System.nanoTime() - startedNanos) / 1_000_000;
      answers.println(json.createObjectNode().put("code", ended == null ? code : ended).put("out", text(out)).put("err", text(err)).put("ms", ms));
      answers.flush();
    }
    System.exit(0);
  }

  static String text(ByteArrayOutputStream bytes) {
    return bytes.toString(StandardCharsets.UTF_8);
  }
}

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/**
 * Kafka's own codec as a judge: reads lines `message version hex`, decodes each with the kafka-clients classes, encodes it again and writes
 * `message version hex json`, where the hex is what Kafka wrote and the JSON what it understood.
 */
public class Oracle {
  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split(" ");
      short version = Short.parseShort(words[1]);
      String suffix = words[0].matches(".*(Request|Response)") ? "Data" : "";
      Class<?> type = Class.forName("org.apache.kafka.common.message." + words[0] + suffix);
      ByteBuffer frame = ByteBuffer.wrap(HexFormat.of().parseHex(words.length < 3 ? "" : words[2]));
      Message message = (Message) type.getConstructor(Readable.class, short.class).newInstance(new ByteBufferAccessor(frame), version);
      if (frame.hasRemaining()) throw new IllegalStateException(words[0] + " v" + version + ": " + frame.remaining() + " bytes left");
      ObjectSerializationCache cache = new ObjectSerializationCache();
      ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
      message.write(new ByteBufferAccessor(out), cache, version);
      Object json = Class.forName(type.getName() + "JsonConverter").getMethod("write", type, short.class, boolean.class).invoke(null, message, version, false);
      System.out.println(words[0] + " " + version + " " + HexFormat.of().formatHex(out.array()) + " " + json);
    }
  }
}

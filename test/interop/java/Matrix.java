import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Records into a topic and out of it, as lines of JSON; bytes are base64, and null is null.
 *
 *   java Matrix produce BOOTSTRAP TOPIC          standard input: {"partition", "codec", "key", "value", "headers": [[NAME, VALUE], ...], "timestamp"};
 *                                                prints {"partition", "offset"} of each in the same order
 *   java Matrix consume BOOTSTRAP TOPIC COUNT    that many from the beginning, with "offset" and without "codec"
 */
public final class Matrix {
  static final ObjectMapper json = new ObjectMapper();
  static final int WAIT_MS = 45_000;

  public static void main(String[] args) throws Exception {
    if (args[0].equals("produce")) produce(args[1], args[2]);
    else consume(args[1], args[2], Integer.parseInt(args[3]));
  }

  /** A producer has one codec: one after the other for each codec in a row. */
  static void produce(String bootstrap, String topic) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    List<JsonNode> row = new ArrayList<>();
    for (String line; (line = lines.readLine()) != null;) {
      if (line.isBlank()) continue;
      JsonNode record = json.readTree(line);
      if (!row.isEmpty() && !codec(row.get(0)).equals(codec(record))) {
        send(bootstrap, topic, row);
        row.clear();
      }
      row.add(record);
    }
    if (!row.isEmpty()) send(bootstrap, topic, row);
  }

  static void send(String bootstrap, String topic, List<JsonNode> records) throws Exception {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", bootstrap);
    settings.put("compression.type", codec(records.get(0)));
    settings.put("linger.ms", "20");
    try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
      List<Future<RecordMetadata>> sent = new ArrayList<>();
      for (JsonNode record : records) {
        ProducerRecord<byte[], byte[]> one =
            new ProducerRecord<>(
                topic, record.get("partition").asInt(), record.get("timestamp").asLong(), bytes(record.get("key")), bytes(record.get("value")));
        for (JsonNode header : record.get("headers")) one.headers().add(header.get(0).asText(), bytes(header.get(1)));
        sent.add(producer.send(one));
      }
      for (Future<RecordMetadata> one : sent)
        System.out.println(json.createObjectNode().put("partition", one.get().partition()).put("offset", one.get().offset()));
    }
  }

  static void consume(String bootstrap, String topic, int count) throws Exception {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", bootstrap);
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      List<TopicPartition> partitions = new ArrayList<>();
      for (PartitionInfo partition : consumer.partitionsFor(topic)) partitions.add(new TopicPartition(topic, partition.partition()));
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      long endNanos = System.nanoTime() + WAIT_MS * 1_000_000L;
      for (int left = count; left > 0;) {
        if (System.nanoTime() > endNanos) throw new IllegalStateException(left + " records of " + topic + " did not come");
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
          left--;
          ObjectNode line = json.createObjectNode().put("partition", record.partition()).put("offset", record.offset());
          line.put("timestamp", record.timestamp()).put("key", text(record.key())).put("value", text(record.value()));
          ArrayNode headers = line.putArray("headers");
          for (Header header : record.headers()) headers.addArray().add(header.key()).add(text(header.value()));
          System.out.println(line);
        }
      }
    }
  }

  static String codec(JsonNode record) {
    return record.get("codec").asText();
  }

  static byte[] bytes(JsonNode text) {
    return text == null || text.isNull() ? null : Base64.getDecoder().decode(text.asText());
  }

  static String text(byte[] bytes) {
    return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
  }
}

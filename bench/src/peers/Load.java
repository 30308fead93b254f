import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.tools.ProducerPerformance;

/**
 * The client of `bench -- kafka`: one JVM that stays warm and drives whichever cluster a command names. A command is a line of words with tabs between
 * them, its answer the line `ok` or `failed` with figures or the reason.
 */
public class Load {
  static final PrintStream out = System.out;

  public static void main(String[] args) throws Exception {
    var in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null; ) {
      String[] c = line.split("\t");
      try {
        out.println("ok\t" + switch (c[0]) {
          case "create" -> create(c[1], c[2], Integer.parseInt(c[3]), Short.parseShort(c[4]), Arrays.copyOfRange(c, 5, c.length));
          case "delete" -> delete(c[1], c[2]);
          case "produce" -> produce(c[1], c[2], Long.parseLong(c[3]), Integer.parseInt(c[4]));
          case "consume" -> consume(c[1], c[2], Long.parseLong(c[3]));
          case "tail" -> tail(c[1], c[2], Long.parseLong(c[3]), Integer.parseInt(c[4]));
          case "latency" -> latency(c[1], c[2], Integer.parseInt(c[3]), Integer.parseInt(c[4]), Integer.parseInt(c[5]));
          default -> throw new IllegalArgumentException("no command " + c[0]);
        });
      } catch (Throwable e) {
        out.println("failed\t" + e.toString().replace('\n', ' '));
      }
      out.flush();
    }
  }

  /**
   * Returns when every leader serves its partition. A producer that is earlier can lose its first batch on Kafka (KAFKA-15591): the leader refuses it, takes
   * the second, and then refuses the first for ever, four batches a second pass it, and after two minutes it is given up.
   */
  static String create(String servers, String topic, int partitions, short replicas, String[] config) throws Exception {
    var configs = new HashMap<String, String>();
    for (String pair : config) configs.put(pair.split("=")[0], pair.split("=")[1]);
    try (var admin = Admin.create(Map.of("bootstrap.servers", servers))) {
      admin.createTopics(List.of(new NewTopic(topic, partitions, replicas).configs(configs))).all().get();
      var ends = new HashMap<TopicPartition, OffsetSpec>();
      for (int p = 0; p < partitions; p++) ends.put(new TopicPartition(topic, p), OffsetSpec.latest());
      for (long until = System.nanoTime() + 30_000_000_000L; ; Thread.sleep(50)) {
        try {
          admin.listOffsets(ends).all().get();
          break;
        } catch (ExecutionException e) {
          if (!(e.getCause() instanceof RetriableException) || System.nanoTime() > until) throw e;
        }
      }
    }
    return "";
  }

  static String delete(String servers, String topic) throws Exception {
    try (var admin = Admin.create(Map.of("bootstrap.servers", servers))) {
      admin.deleteTopics(List.of(topic)).all().get();
    }
    return "";
  }

  /** Kafka's own tool, unmodified; the figures of its last line: MB (of 2^20) per second, average, p50, p99 in ms. */
  static String produce(String servers, String topic, long records, int size) throws Exception {
    var captured = new ByteArrayOutputStream();
    System.setOut(new PrintStream(captured, true));
    try {
      ProducerPerformance.main(new String[] {
        "--topic", topic, "--num-records", "" + records, "--record-size", "" + size, "--throughput", "-1",
        "--bootstrap-server", servers, "--command-property", "acks=all", "enable.idempotence=true",
      });
    } finally {
      System.setOut(out);
    }
    String last = captured.toString().strip().lines().reduce((a, b) -> b.contains("99th") ? b : a).orElse("");
    if (!last.startsWith(records + " records sent")) throw new IllegalStateException("not all were sent: " + captured);
    return figures(field(last, "\\(([0-9.]+) MB/sec"), field(last, "([0-9.]+) ms avg"), field(last, "([0-9]+) ms 50th"), field(last, "([0-9]+) ms 99th"));
  }

  static double field(String line, String pattern) {
    var m = java.util.regex.Pattern.compile(pattern).matcher(line);
    if (!m.find()) throw new IllegalStateException("no " + pattern + " in " + line);
    return Double.parseDouble(m.group(1));
  }

  /** All partitions from their starts, MB (of 2^20) per second from the first record to the last. */
  static String consume(String servers, String topic, long records) {
    try (var consumer = consumer(servers)) {
      var partitions = partitions(consumer, topic);
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      return figures(receive(consumer, records));
    }
  }

  /** The same, of what is produced meanwhile. */
  static String tail(String servers, String topic, long records, int size) throws Exception {
    try (var consumer = consumer(servers)) {
      var partitions = partitions(consumer, topic);
      consumer.assign(partitions);
      consumer.seekToEnd(partitions);
      for (var p : partitions) consumer.position(p);
      var failed = new Throwable[1];
      var producing = new Thread(() -> {
        try {
          produce(servers, topic, records, size);
        } catch (Throwable e) {
          failed[0] = e;
        }
      });
      producing.start();
      double rate = receive(consumer, records);
      producing.join();
      if (failed[0] != null) throw new IllegalStateException(failed[0]);
      return figures(rate);
    }
  }

  static double receive(KafkaConsumer<byte[], byte[]> consumer, long records) {
    long bytes = 0, count = 0, first = 0, until = System.nanoTime() + 120_000_000_000L;
    while (count < records) {
      if (System.nanoTime() > until) throw new IllegalStateException(count + " of " + records + " records in two minutes");
      var some = consumer.poll(Duration.ofMillis(500));
      if (first == 0 && !some.isEmpty()) first = System.nanoTime();
      for (var record : some) bytes += record.serializedValueSize();
      count += some.count();
    }
    return bytes / 1048576.0 / ((System.nanoTime() - first) / 1e9);
  }

  /** At a fixed rate, open loop: from the moment a record should have been sent until poll gives it; p50 and p99 in ms of what follows a second of warm-up. */
  static String latency(String servers, String topic, int perSecond, int seconds, int size) throws Exception {
    int total = perSecond * seconds;
    var config = properties(servers);
    config.put("acks", "all");
    config.put("key.serializer", ByteArraySerializer.class.getName());
    config.put("value.serializer", ByteArraySerializer.class.getName());
    var ready = new CountDownLatch(1);
    var took = new ArrayList<Double>(total);
    var failed = new Throwable[1];
    var receiving = new Thread(() -> {
      try (var consumer = consumer(servers)) {
        var partitions = partitions(consumer, topic);
        consumer.assign(partitions);
        consumer.seekToEnd(partitions);
        for (var p : partitions) consumer.position(p);
        ready.countDown();
        long until = System.nanoTime() + (seconds + 30) * 1_000_000_000L;
        for (int got = 0; got < total; ) {
          if (System.nanoTime() > until) throw new IllegalStateException(got + " of " + total + " records came");
          var some = consumer.poll(Duration.ofMillis(100));
          long now = System.nanoTime();
          for (var record : some) {
            var value = ByteBuffer.wrap(record.value());
            if (value.getInt(8) >= perSecond) took.add((now - value.getLong(0)) / 1e6);
          }
          got += some.count();
        }
      } catch (Throwable e) {
        failed[0] = e;
        ready.countDown();
      }
    });
    receiving.start();
    ready.await();
    try (var producer = new KafkaProducer<byte[], byte[]>(config)) {
      long start = System.nanoTime();
      for (int i = 0; i < total; i++) {
        long due = start + i * 1_000_000_000L / perSecond;
        while (System.nanoTime() < due) LockSupport.parkNanos(due - System.nanoTime());
        producer.send(new ProducerRecord<>(topic, ByteBuffer.allocate(size).putLong(due).putInt(i).array()));
      }
    }
    receiving.join();
    if (failed[0] != null) throw new IllegalStateException(failed[0]);
    took.sort(null);
    return figures(took.get(took.size() / 2), took.get((int) (took.size() * 0.99)));
  }

  static KafkaConsumer<byte[], byte[]> consumer(String servers) {
    var config = properties(servers);
    config.put("key.deserializer", ByteArrayDeserializer.class.getName());
    config.put("value.deserializer", ByteArrayDeserializer.class.getName());
    return new KafkaConsumer<>(config);
  }

  static List<TopicPartition> partitions(KafkaConsumer<byte[], byte[]> consumer, String topic) {
    return consumer.partitionsFor(topic).stream().map(p -> new TopicPartition(topic, p.partition())).toList();
  }

  static Properties properties(String servers) {
    var config = new Properties();
    config.put("bootstrap.servers", servers);
    return config;
  }

  static String figures(double... values) {
    var text = new StringBuilder();
    for (double v : values) text.append(text.length() == 0 ? "" : "\t").append(String.format(Locale.ROOT, "%.3f", v));
    return text.toString();
  }
}

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An application with the client's own defaults: a producer at a fixed rate, and two members of a group; see ../rolling/load.ts for what it prints.
 *
 *   java Load BOOTSTRAP TOPIC PARTITIONS RECORDS_PER_SECOND [NAME=VALUE ...]       settings of the clients
 */
public final class Load {
  static final int MEMBERS = 2;
  static final int POLL_MS = 100;
  static volatile boolean producing = true;
  static volatile boolean running = true;

  public static void main(String[] args) throws Exception {
    Thread[] members = new Thread[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) {
      int member = i;
      members[i] = new Thread(() -> consume(args, member));
      members[i].start();
    }
    Thread producer = new Thread(() -> produce(args));
    producer.start();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    // A line ends the producer, the end of the input the members.
    lines.readLine();
    producing = false;
    producer.join();
    while (lines.readLine() != null) {}
    running = false;
    for (Thread member : members) member.join();
  }

  static Properties settings(String[] args) {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", args[0]);
    for (int i = 4; i < args.length; i++) settings.put(args[i].substring(0, args[i].indexOf('=')), args[i].substring(args[i].indexOf('=') + 1));
    return settings;
  }

  /** A record is due at a time whether the one before it was acknowledged or not. */
  static void produce(String[] args) {
    String topic = args[1];
    int partitions = Integer.parseInt(args[2]);
    double nanosEach = 1e9 / Integer.parseInt(args[3]);
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings(args), new StringSerializer(), new StringSerializer())) {
      long startNanos = System.nanoTime();
      long startMs = System.currentTimeMillis();
      for (long i = 0; producing; i++) {
        long dueNanos = (long) (i * nanosEach);
        for (long left; (left = startNanos + dueNanos - System.nanoTime()) > 0;) LockSupport.parkNanos(left);
        int partition = (int) (i % partitions);
        String value = "java/" + partition + "/" + i / partitions;
        long dueMs = startMs + dueNanos / 1_000_000;
        producer.send(
            new ProducerRecord<>(topic, partition, null, value),
            (at, error) -> {
              if (error != null) say("error produce " + value + ": " + error);
              else say("ack " + at.partition() + " " + at.offset() + " " + value + " " + dueMs + " " + System.currentTimeMillis());
            });
      }
      producer.flush();
    } catch (Exception error) {
      say("error producer: " + error);
    }
    say("produced");
  }

  static void consume(String[] args, int member) {
    Properties settings = settings(args);
    settings.put("group.id", args[1]);
    settings.put("client.id", "member-" + member);
    settings.put("auto.offset.reset", "earliest");
    ConsumerRebalanceListener listener =
        new ConsumerRebalanceListener() {
          @Override
          public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            say("group member-" + member + " gets " + partitions.size());
          }

          @Override
          public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            say("group member-" + member + " gives " + partitions.size());
          }

          @Override
          public void onPartitionsLost(Collection<TopicPartition> partitions) {
            say("group member-" + member + " loses " + partitions.size());
          }
        };
    try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of(args[1]), listener);
      while (running) {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(POLL_MS)))
          say("read " + record.partition() + " " + record.offset() + " " + record.value() + " " + System.currentTimeMillis());
      }
    } catch (Exception error) {
      say("error member-" + member + ": " + error);
    }
  }

  static synchronized void say(String line) {
    System.out.println(line);
  }
}

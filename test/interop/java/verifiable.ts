import { startJava } from "./java.ts";

const TOOLS = "org.apache.kafka.tools.";

interface ProducerEvent {
  readonly name: string;
  readonly partition: number;
  readonly offset: number;
  readonly value: string;
  readonly acked: number;
}
interface ConsumerEvent {
  readonly name: string;
  readonly partition: number;
  readonly offset: number;
  readonly value: string;
}

/**
 * Kafka's VerifiableProducer and VerifiableConsumer at the same time. Throws unless every record that was acknowledged was read exactly once, where
 * it was said to be, and nothing else was.
 */
export async function verifiablePair(bootstrap: string, topic: string, records: number, timeoutMs: number): Promise<void> {
  const common = ["--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", `${records}`];
  /** Where each number lies, as partition and offset; what is read is taken out. */
  const acked = new Map<number, string>();
  const read = new Map<number, string>();
  const wrong: string[] = [];
  const note = (where: Map<number, string>, what: string, value: number, place: string): void => {
    const before = where.get(value);
    if (before !== undefined) wrong.push(`${value} was ${what} twice: ${before} and ${place}`);
    where.set(value, place);
  };
  await using consumer = await startJava(
    "4",
    `${TOOLS}VerifiableConsumer`,
    [...common, "--group-id", topic, "--group-protocol", "consumer", "--verbose"],
    (line) => {
      if (!line.includes('"record_data"')) return;
      const { partition, offset, value } = JSON.parse(line) as ConsumerEvent;
      note(read, "read", Number(value), `${partition}/${offset}`);
    },
    timeoutMs,
  );
  await using producer = await startJava(
    "4",
    `${TOOLS}VerifiableProducer`,
    common,
    (line) => {
      if (line.includes('"producer_send_error"')) wrong.push(line);
      if (!line.includes('"producer_send_success"')) return;
      const { partition, offset, value } = JSON.parse(line) as ProducerEvent;
      note(acked, "acknowledged", Number(value), `${partition}/${offset}`);
    },
    timeoutMs,
  );
  const codes = await Promise.all([producer.done, consumer.done]);
  for (const [value, place] of acked)
    if (read.get(value) !== place) wrong.push(`${value} at ${place} was read at ${read.get(value) ?? "no place"}`);
  if (acked.size !== records || read.size !== records) wrong.push(`${acked.size} acknowledged, ${read.size} read of ${records}`);
  if (codes.some((code) => code !== 0)) wrong.push(`exit codes ${codes.join(", ")}: ${producer.errors()} ${consumer.errors()}`);
  if (wrong.length > 0) throw new Error(`${wrong.length} faults:\n${wrong.slice(0, 20).join("\n")}`);
}

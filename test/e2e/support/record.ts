import type { ConsumedRecord, ProducerRecord } from "@sluice/client";

/**
 * Records that prove themselves: the value is `<producer>/<partition>/<number>|` repeated to the wanted size, key and header tell the same,
 * so that a reader finds any byte that is not as it was sent.
 */
export const recordId = (producer: string, partition: number, number: number): string => `${producer}/${partition}/${number}`;

export function makeRecord(producer: string, partition: number, number: number, bytes: number): ProducerRecord {
  const id = recordId(producer, partition, number);
  return { partition, key: producer, value: fill(id, bytes), headers: [["n", String(number)]] };
}
/** The id of a record that was read; throws with what differs from the record as it was made. */
export function checkRecord(record: ConsumedRecord): string {
  const value = record.valueText();
  const id = value?.slice(0, value.indexOf("|"));
  const [producer, partition, number, ...rest] = (id ?? "").split("/");
  const place = `${record.topic} ${record.partition}@${record.offset}`;
  if (value === null || id === undefined || number === undefined || rest.length > 0)
    throw new Error(`${place} is no record of ours: ${value?.slice(0, 80)}`);
  if (value !== fill(id, value.length)) throw new Error(`${place}: the value of ${id} has changed`);
  if (record.keyText() !== producer) throw new Error(`${place}: the key of ${id} is ${record.keyText()}`);
  if (Number(partition) !== record.partition) throw new Error(`${place}: ${id} is of another partition`);
  const header = record.header("n");
  if (header === undefined || header === null || Buffer.from(header).toString() !== number)
    throw new Error(`${place}: the header of ${id} is wrong`);
  if (record.headers.length !== 1) throw new Error(`${place}: ${id} has ${record.headers.length} headers`);
  return id;
}
function fill(id: string, bytes: number): string {
  const unit = `${id}|`;
  return unit.length >= bytes ? unit : unit.repeat(Math.ceil(bytes / unit.length)).slice(0, bytes);
}

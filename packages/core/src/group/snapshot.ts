import { readInt16, readInt64, readUint32, writeInt16, writeInt32, writeInt64 } from "../log/bytes.ts";
import type { Crc32c } from "../log/checksum.ts";
import { SluiceError } from "../model/index.ts";
import { decodeGroupRecord, encodedBytes, encodeGroupRecord, type EncodedRecord, type GroupRecord } from "./record.ts";
import { createShardState, replay, type Group, type ShardState } from "./state.ts";

/**
 * Snapshot of a group shard, version 2 (version 1 has 2 bytes for the length of a value): the records that, replayed in order, give the state. Big-endian.
 *
 *   at  bytes  field
 *    0    4    magic "SLGS"
 *    4    1    version (2)
 *    5    3    zero
 *    8    4    shard
 *   12    8    next offset: the log continues here
 *   20    4    number of records
 *   24         records:  2 length of the key, key, 4 length of the value, value      (see record.ts; the owner record first)
 *   end - 4    CRC32C of everything before
 */
const MAGIC = 0x534c_4753;
const VERSION = 2;
const VERSION_SHORT_VALUES = 1;
const HEADER_BYTES = 24;
const CRC_BYTES = 4;
const LENGTHS_BYTES = 6;

export function encodeShardSnapshot(state: ShardState, shard: number, crc32c: Crc32c): Uint8Array {
  const records: EncodedRecord[] = [];
  if (state.epoch > 0) {
    records.push(encodeGroupRecord({ kind: "owner", epoch: state.epoch, member: state.member, instance: state.instance }));
  }
  for (const group of state.groups.values()) for (const record of groupRecords(group)) records.push(encodeGroupRecord(record));
  let total = HEADER_BYTES + CRC_BYTES;
  for (const r of records) total += LENGTHS_BYTES + encodedBytes(r);
  const bytes = new Uint8Array(total);
  writeInt32(bytes, 0, MAGIC);
  bytes[4] = VERSION;
  writeInt32(bytes, 8, shard);
  writeInt64(bytes, 12, state.nextOffset);
  writeInt32(bytes, 20, records.length);
  let at = HEADER_BYTES;
  for (const { key, value } of records) {
    const bare = value as Uint8Array;
    writeInt16(bytes, at, key.length);
    bytes.set(key, at + 2);
    writeInt32(bytes, at + 2 + key.length, bare.length);
    bytes.set(bare, at + LENGTHS_BYTES + key.length);
    at += LENGTHS_BYTES + key.length + bare.length;
  }
  writeInt32(bytes, at, crc32c(bytes.subarray(0, at)));
  return bytes;
}

/** The group record goes before its members. */
function* groupRecords({ tenant, group, offsets, members }: Group): Generator<GroupRecord> {
  const key = { tenant, group };
  if (members?.kind === "classic") yield { kind: "classic", key, value: members };
  if (members?.kind === "consumer") {
    yield { kind: "consumer", key, value: members };
    for (const [memberId, value] of members.members) yield { kind: "member", key: { ...key, memberId }, value };
  }
  for (const { topicId, partition, value } of offsets.values()) yield { kind: "offset", key: { tenant, group, topicId, partition }, value };
}

/** Throws CORRUPT_SEGMENT for damaged bytes or those of another shard, UNSUPPORTED_FORMAT for a version that is not known. */
export function decodeShardSnapshot(bytes: Uint8Array, shard: number, crc32c: Crc32c): ShardState {
  const end = bytes.length - CRC_BYTES;
  if (end < HEADER_BYTES || readUint32(bytes, 0) !== MAGIC) throw damaged("it is none");
  const version = bytes[4];
  if (version !== VERSION && version !== VERSION_SHORT_VALUES)
    throw new SluiceError("UNSUPPORTED_FORMAT", `a shard snapshot of version ${version}, this one knows ${VERSION}`);
  if (readUint32(bytes, end) !== crc32c(bytes.subarray(0, end))) throw damaged("it fails its CRC");
  if (readUint32(bytes, 8) !== shard) throw damaged(`it is of shard ${readUint32(bytes, 8)}, not ${shard}`);
  const nextOffset = readInt64(bytes, 12);
  const count = readUint32(bytes, 20);
  if (!Number.isSafeInteger(nextOffset) || nextOffset < 0) throw damaged("its offset is none");
  const state = createShardState();
  let at = HEADER_BYTES;
  const part = (prefix: 2 | 4): Uint8Array => {
    const length = at + prefix > end ? end : prefix === 2 ? readInt16(bytes, at) & 0xffff : readUint32(bytes, at);
    if (at + prefix + length > end) throw damaged("a record is cut off");
    at += prefix + length;
    return bytes.subarray(at - length, at);
  };
  for (let i = 0; i < count; i++) {
    const record: GroupRecord = decodeGroupRecord(part(2), part(version === VERSION ? 4 : 2));
    replay(state, state.nextOffset, record);
  }
  if (at !== end) throw damaged("bytes follow its last record");
  state.nextOffset = nextOffset;
  return state;
}
const damaged = (why: string): SluiceError => new SluiceError("CORRUPT_SEGMENT", `the shard snapshot cannot be used: ${why}`);

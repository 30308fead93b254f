import { limits } from "@sluice/core/model";
import { FrameType } from "../frame.ts";
import { malformed, need, readOffset, type Codec } from "./codec.ts";

/**
 * appended: storage node to broker, cumulative per segment, many in one frame. Values as `AppendedAnswer` of core/replica.
 *
 *   0   u16  count, at most APPENDED_ENTRIES_MAX
 *   2   u16  0
 *   4        count times:
 *            0   u32  segment number
 *            4   u16  code: 0 or a number of the error catalogue
 *            6   u16  0
 *            8   f64  highest durable offset; -1 none
 *            16  u32  barrier
 */
export interface AppendedEntry {
  segmentNumber: number;
  code: number;
  durable: number;
  barrier: number;
}
/** `entries` is reused and only grows: the first `count` are valid. */
export interface AppendedMessage {
  count: number;
  entries: AppendedEntry[];
}
const FIXED = 4;
const ENTRY = 20;
export const APPENDED_ENTRIES_MAX = Math.floor((limits.linkHeaderBytesMax - FIXED) / ENTRY);

/** Adds an entry without allocating once the array has grown. The caller sends before the count passes APPENDED_ENTRIES_MAX. */
export function addAppended(m: AppendedMessage, segmentNumber: number, code: number, durable: number, barrier: number): void {
  const entry = entryAt(m, m.count++);
  entry.segmentNumber = segmentNumber;
  entry.code = code;
  entry.durable = durable;
  entry.barrier = barrier;
}
function entryAt(m: AppendedMessage, i: number): AppendedEntry {
  let entry = m.entries[i];
  if (entry === undefined) {
    entry = { segmentNumber: 0, code: 0, durable: 0, barrier: 0 };
    m.entries.push(entry);
  }
  return entry;
}

export const appendedCodec: Codec<AppendedMessage> = {
  type: FrameType.appended,
  create: () => ({ count: 0, entries: [] }),
  size: (m) => FIXED + m.count * ENTRY,
  encode(m, view, at) {
    view.setUint16(at, m.count, true);
    view.setUint16(at + 2, 0, true);
    for (let i = 0; i < m.count; i++) {
      const entry = entryAt(m as AppendedMessage, i);
      const to = at + FIXED + i * ENTRY;
      view.setUint32(to, entry.segmentNumber, true);
      view.setUint16(to + 4, entry.code, true);
      view.setUint16(to + 6, 0, true);
      view.setFloat64(to + 8, entry.durable, true);
      view.setUint32(to + 16, entry.barrier, true);
    }
  },
  decode(frame, into) {
    need(frame, FIXED, "appended");
    const { view, headerAt: at } = frame;
    const count = view.getUint16(at, true);
    if (count > APPENDED_ENTRIES_MAX) throw malformed(`appended: ${count} entries, limit ${APPENDED_ENTRIES_MAX}`);
    need(frame, FIXED + count * ENTRY, "appended");
    for (let i = 0; i < count; i++) {
      const entry = entryAt(into, i);
      const from = at + FIXED + i * ENTRY;
      entry.segmentNumber = view.getUint32(from, true);
      entry.code = view.getUint16(from + 4, true);
      entry.durable = readOffset(view, from + 8, "appended.durable");
      entry.barrier = view.getUint32(from + 16, true);
    }
    into.count = count;
    return into;
  },
};

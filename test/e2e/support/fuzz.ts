import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { SeededRandom } from "@sluice/runtime/testing";

const PARALLEL = 3;
const BURSTS_MAX = 6;
/** The length that a hostile frame may announce goes up to what 4 bytes hold. */
const LENGTH_MAX = 0xffff_ffff;
const RANDOM_BYTES_MAX = 4_096;

export interface Target {
  readonly name: string;
  /** The process that listens. */
  readonly process: string;
  readonly address: string;
  /** Sent before anything else on a connection, so that what follows is read. */
  readonly opening: readonly Uint8Array[];
  /** What a good peer would send. */
  readonly good: readonly Uint8Array[];
  /** Where a frame keeps its length, if anywhere. */
  readonly lengthAt?: { readonly at: number; readonly bytes: number; readonly isBigEndian: boolean };
}
export interface Attacked {
  connections: number;
  bytes: number;
}

/** A good frame, changed: nothing of it, some bytes, its length, a part of it, or twice in a row. */
function hostile(target: Target, random: SeededRandom): Buffer {
  const frame = Buffer.from(target.good[random.int(target.good.length)] as Uint8Array);
  switch (random.int(6)) {
    case 0:
      return Buffer.from(random.bytes(1 + random.int(RANDOM_BYTES_MAX)));
    case 1:
      for (let n = 1 + random.int(6); n > 0; n -= 1) frame[random.int(frame.length)] = random.int(256);
      return frame;
    case 2: {
      const { lengthAt } = target;
      if (lengthAt === undefined || frame.length < lengthAt.at + lengthAt.bytes) return frame;
      const length = random.int(2) === 0 ? random.int(LENGTH_MAX) : random.int(2 * frame.length);
      const value = length % 2 ** (8 * lengthAt.bytes);
      if (lengthAt.isBigEndian) frame.writeUIntBE(value, lengthAt.at, lengthAt.bytes);
      else frame.writeUIntLE(value, lengthAt.at, lengthAt.bytes);
      return frame;
    }
    case 3:
      return frame.subarray(0, random.int(frame.length));
    case 4:
      return Buffer.concat([frame, frame]);
    default:
      return frame;
  }
}

/** One connection: opens as a good peer does, or not, and sends a few hostile frames. */
async function oneConnection(target: Target, random: SeededRandom, count: Attacked): Promise<void> {
  const [host, port] = target.address.split(":") as [string, string];
  const socket = connect({ host, port: Number(port), noDelay: true });
  socket.on("error", () => undefined);
  socket.resume();
  const closed = once(socket, "close").catch(() => undefined);
  await Promise.race([once(socket, "connect").catch(() => undefined), closed]);
  count.connections += 1;
  const send = (bytes: Uint8Array): void => {
    if (socket.destroyed) return;
    count.bytes += bytes.length;
    socket.write(bytes);
  };
  if (random.int(4) > 0) for (const bytes of target.opening) send(bytes);
  for (let n = 1 + random.int(BURSTS_MAX); n > 0 && !socket.destroyed; n -= 1) {
    send(hostile(target, random));
    if (random.int(3) === 0) await Promise.race([closed, sleep(random.int(5))]);
  }
  await Promise.race([closed, sleep(random.int(30))]);
  if (random.int(2) === 0) socket.destroy();
  else socket.resetAndDestroy();
  await closed;
}

/** Several connections at a time until the time is over. */
export async function attack(target: Target, random: SeededRandom, untilMs: number): Promise<Attacked> {
  const count: Attacked = { connections: 0, bytes: 0 };
  const run = async (): Promise<void> => {
    while (Date.now() < untilMs) await oneConnection(target, random, count);
  };
  await Promise.all(Array.from({ length: PARALLEL }, run));
  return count;
}

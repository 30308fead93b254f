import type { Socket } from "node:net";
import { readInto } from "@sluice/link";
import { kafkaLimits } from "./limits.ts";

let buffer: Buffer | undefined;

/**
 * Reads an accepted, paused socket; returns the one to use from then on. The bytes of all connections arrive in one buffer, so that a read costs no new
 * memory (V8 answers 64 KiB for each, at 100 MB/s, with marks of its whole heap):
 *
 *   socket A ─┐
 *   socket B ─┴─► [ what the last read brought        ] ─► onData copies out what it keeps, before it returns
 */
export function readShared(accepted: Socket, path: "slab" | "data", onData: (chunk: Buffer) => void): Socket {
  if (path === "data") return accepted.on("data", onData).resume();
  const shared = (buffer ??= Buffer.allocUnsafeSlow(kafkaLimits.readBytesMax));
  return readInto(accepted, { target: () => shared, onRead: (bytes) => onData(shared.subarray(0, bytes)) });
}

import { randomBytes, randomInt, randomUUID } from "node:crypto";

/** Randomness, as a component. */
export interface Random {
  /** Integer in [0, below). */
  int(below: number): number;
  /** In [0, 1). */
  float(): number;
  uuid(): string;
  bytes(length: number): Uint8Array;
}

export const systemRandom: Random = {
  int: (below) => randomInt(below),
  float: () => Math.random(),
  uuid: () => randomUUID(),
  bytes: (length) => randomBytes(length),
};

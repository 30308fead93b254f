import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { ChainHash, EMPTY_CHAIN_HASH } from "../../src/log/index.ts";
import { codeThrown } from "./support.ts";

type Link = readonly [number, number, number];
const link = fc.tuple(fc.maxSafeNat(), fc.nat(0x7fff_ffff), fc.nat(0xffff_ffff));
const links = fc.array(link, { maxLength: 30 });
const hashOf = (list: readonly Link[], from = new ChainHash()): ChainHash => list.reduce((h, l) => h.add(...l), from);

describe("chain hash", () => {
  test("extending the hash of a prefix by the suffix is the hash of the whole, through every way to store it", () => {
    fc.assert(
      fc.property(links, links, (prefix, suffix) => {
        const whole = hashOf([...prefix, ...suffix]).hex();
        const stored = hashOf(prefix);
        expect(hashOf(suffix, ChainHash.fromHex(stored.hex())).hex()).toBe(whole);
        expect(hashOf(suffix, ChainHash.fromLanes(stored.high, stored.low)).hex()).toBe(whole);
        expect(hashOf(suffix, stored.clone()).hex()).toBe(whole);
        expect(stored.equals(hashOf(prefix))).toBe(true);
      }),
    );
  });
  test("any difference in any place changes it", () => {
    fc.assert(
      fc.property(fc.array(link, { minLength: 1, maxLength: 30 }), fc.nat(), fc.nat(2), fc.nat(31), (list, where, part, bit) => {
        const at = where % list.length;
        const changed = list.map((l) => [...l] as [number, number, number]);
        const target = changed[at] as [number, number, number];
        target[part] = part === 0 ? (target[0] === 0 ? 1 : target[0] - 1) : ((target[part] as number) ^ (1 << (bit % 31))) >>> 0;
        expect(hashOf(changed).hex()).not.toBe(hashOf(list).hex());
      }),
      { numRuns: 500 },
    );
  });
  test("order and number count", () => {
    const a: Link = [0, 1, 7];
    const b: Link = [1, 1, 9];
    expect(hashOf([a, b]).hex()).not.toBe(hashOf([b, a]).hex());
    expect(hashOf([[0, 0, 0]]).hex()).not.toBe(hashOf([]).hex());
    expect(hashOf([[0, 0, 0]]).hex()).not.toBe(
      hashOf([
        [0, 0, 0],
        [0, 0, 0],
      ]).hex(),
    );
  });
  test("spreads: twenty thousand near inputs have no equal hashes, in neither lane many", () => {
    const all = new Set<string>();
    const high = new Set<number>();
    const low = new Set<number>();
    for (let i = 0; i < 20_000; i++) {
      const h = new ChainHash().add(i, i & 3, 0x1234_5678);
      all.add(h.hex());
      high.add(h.high);
      low.add(h.low);
    }
    expect(all.size).toBe(20_000);
    // Of 20,000 random 32-bit values hardly a pair is equal.
    expect(Math.min(high.size, low.size)).toBeGreaterThan(19_995);
  });
  test("is fixed for ever", () => {
    expect(EMPTY_CHAIN_HASH).toBe("243f6a8885a308d3");
    expect(
      hashOf([
        [0, 1, 0xdead_beef],
        [2 ** 40 + 3, 0x7fff_ffff, 1],
      ]).hex(),
    ).toBe("c701c01c71752d88");
  });
  test("reset, copy, and texts that are no hash", () => {
    const h = hashOf([[1, 2, 3]]);
    expect(new ChainHash().copy(h).hex()).toBe(h.hex());
    expect(h.reset().hex()).toBe(EMPTY_CHAIN_HASH);
    for (const text of ["", "123", "g".repeat(16), "A".repeat(16), "0".repeat(17)])
      expect(codeThrown(() => ChainHash.fromHex(text))).toBe("INVALID_ARGUMENT");
  });
});

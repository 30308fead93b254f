import { expect, test } from "@jest/globals";
import { epoch, topicId } from "@sluice/core/model";
import * as fc from "fast-check";
import { parseSegmentObjectKey, segmentObjectKey, segmentObjectPrefix, type SegmentObjectName } from "../src/object-keys.ts";

const names: fc.Arbitrary<SegmentObjectName> = fc.record({
  clusterId: fc.uuid(),
  partition: fc.record({ topicId: fc.uuid().map(topicId), partition: fc.nat(99_999) }),
  base: fc.maxSafeNat(),
  segment: fc.record({ epoch: fc.nat(0x7fff_ffff).map(epoch), k: fc.nat(0xffff_ffff) }),
  attempt: fc.uuid(),
});

test("the name of a segment object is read back from its key", () => {
  fc.assert(
    fc.property(names, (name) => {
      const key = segmentObjectKey(name);
      expect(key.startsWith(segmentObjectPrefix(name.clusterId))).toBe(true);
      expect(/^[A-Za-z0-9._/-]+$/.test(key)).toBe(true);
      expect(parseSegmentObjectKey(key)).toEqual(name);
    }),
  );
});
test("keys of one partition are in order of base", () => {
  fc.assert(
    fc.property(names, fc.maxSafeNat(), (name, other) => {
      const [a, b] = [segmentObjectKey(name), segmentObjectKey({ ...name, base: other })];
      if (name.base !== other) expect(a < b).toBe(name.base < other);
    }),
  );
});
test.each(["", "marker", "clusters/c/segments/t/0/1-2-3", "clusters/c/segments/t/0/1-9999999999-3.x", "x/clusters/c/segments/t/0/1-2-3.a"])(
  "%j is not a segment object",
  (key) => expect(parseSegmentObjectKey(key)).toBeUndefined(),
);

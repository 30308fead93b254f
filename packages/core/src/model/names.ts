import { SluiceError } from "./errors.ts";
import { limits } from "./limits.ts";
import { utf8Bytes } from "./utf8.ts";

const NAME = /^[A-Za-z0-9._-]+$/;
export const RESERVED_PREFIX = "__sluice_";
/** The internal topic whose partitions are the logs of the group shards; made by the first leader with `shardCount` partitions. */
export const GROUPS_TOPIC = "__sluice_groups";
export const DEFAULT_TENANT = "default";

/** Throws INVALID_NAME unless `name` is 1 to 249 (a member's: 64) characters of `[A-Za-z0-9._-]` and neither `.` nor `..` (Kafka's rule). */
export function checkName(kind: "topic" | "tenant" | "member", name: string): void {
  const charsMax = kind === "member" ? limits.memberNameCharsMax : limits.nameCharsMax;
  if (name.length === 0 || name.length > charsMax || !NAME.test(name) || name === "." || name === "..") {
    throw new SluiceError(
      "INVALID_NAME",
      `${kind} name must be 1 to ${charsMax} characters of [A-Za-z0-9._-] and neither . nor .., got ${JSON.stringify(name.slice(0, 80))}`,
    );
  }
}
/** As `checkName`, and refuses the prefix reserved for internal topics. */
export function checkUserTopicName(name: string): void {
  checkName("topic", name);
  if (name.startsWith(RESERVED_PREFIX))
    throw new SluiceError("INVALID_NAME", `topic names that start with ${RESERVED_PREFIX} are reserved`);
}

/**
 * Throws INVALID_GROUP unless `name` is 1 to 249 bytes of UTF-8 without control characters: clients of the Kafka protocol name their groups as
 * they like.
 */
export function checkGroupName(name: string): void {
  if (name.length > 0 && name.length <= limits.nameCharsMax && isPlainText(name) && utf8Bytes(name) <= limits.nameCharsMax) return;
  throw new SluiceError(
    "INVALID_GROUP",
    `a group name is 1 to ${limits.nameCharsMax} bytes of UTF-8 without control characters, got ${JSON.stringify(name.slice(0, 80))}`,
  );
}
/** No control characters, no halves of surrogate pairs. */
export function isPlainText(s: string): boolean {
  for (let i = 0; i < s.length; i++) {
    const c = s.charCodeAt(i);
    if (c < 0x20 || c === 0x7f) return false;
    if (c < 0xd800 || c > 0xdfff) continue;
    const low = s.charCodeAt(i + 1);
    if (c > 0xdbff || !(low >= 0xdc00 && low <= 0xdfff)) return false;
    i++;
  }
  return true;
}

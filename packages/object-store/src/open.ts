import { fileURLToPath } from "node:url";
import type { Clock, Logger, Random } from "@sluice/runtime";
import { ensuredObjectStore } from "./ensured.ts";
import { openFilesystemObjectStore } from "./filesystem/store.ts";
import { invalid } from "./keys.ts";
import type { ObjectStoreTimers } from "./limits.ts";
import { memoryObjectStore } from "./memory.ts";
import type { ObjectStore } from "./port.ts";
import { prefixedObjectStore } from "./prefixed.ts";
import type { S3Credentials } from "./s3/signer.ts";
import type { S3StoreOptions } from "./s3/store.ts";

export interface OpenOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** For `s3:`; from the configuration's file or environment, never from an URL or the command line. */
  readonly credentials?: S3Credentials;
  /** For `s3:`: make the bucket when it is not there. Default false: who makes buckets also sets their rules. */
  readonly createBucket?: boolean;
  readonly timers?: Partial<ObjectStoreTimers>;
}

/**
 *     file:///var/lib/sluice/objects   or a plain path
 *     s3://bucket[/prefix][?endpoint=http://127.0.0.1:9000][&region=eu-west-1][&pathStyle=false]
 *     memory:
 *
 * Throws INVALID_ARGUMENT for an URL that none of these fits, OBJECT_STORE_UNAVAILABLE when the folder cannot be made.
 * An S3 server that is away is no error here: the first call tells, and makes the new bucket.
 */
export async function openObjectStore(url: string, options: OpenOptions): Promise<ObjectStore> {
  if (url === "memory:") return memoryObjectStore(options);
  if (!/^[A-Za-z][A-Za-z0-9+.-]*:/.test(url)) {
    if (url === "") throw invalid("the object store's URL is empty");
    return openFilesystemObjectStore(url, options);
  }
  const parsed = parse(url);
  if (parsed.protocol === "file:") return openFilesystemObjectStore(filePath(parsed), options);
  if (parsed.protocol !== "s3:") throw invalid(`object store ${parsed.protocol}: use a path, file:, s3: or memory:`);
  const settings = s3Options(parsed, options);
  // Loaded by those who have such a store: it brings a client that is a fifth of all that a service compiles when it starts.
  const { s3ObjectStore } = await import("./s3/store.ts");
  const s3 = s3ObjectStore(settings);
  const store = options.createBucket === true ? ensuredObjectStore(s3, () => s3.ensureBucket()) : s3;
  const prefix = parsed.pathname.replaceAll(/^\/|\/$/g, "");
  return prefix === "" ? store : prefixedObjectStore(store, prefix);
}

function parse(url: string): URL {
  let parsed;
  try {
    parsed = new URL(url);
  } catch {
    throw invalid("the object store's URL cannot be parsed");
  }
  // The URL itself is not shown: somebody has put a secret there.
  if (parsed.username !== "" || parsed.password !== "") throw invalid("the object store's URL must not hold credentials");
  return parsed;
}

function filePath(url: URL): string {
  try {
    if (url.search !== "" || url.hash !== "") throw new Error("no query or fragment is known for it");
    return fileURLToPath(url);
  } catch (error) {
    throw invalid(`${url.href}: ${(error as { message?: string }).message}`);
  }
}

const KNOWN = ["endpoint", "region", "pathStyle"];

function s3Options(url: URL, options: OpenOptions): S3StoreOptions {
  const query = url.searchParams;
  const unknown = [...query.keys()].find((name) => !KNOWN.includes(name) || query.getAll(name).length > 1);
  if (unknown !== undefined) throw invalid(`s3://${url.host}: ${JSON.stringify(unknown)} is not one of ${KNOWN.join(", ")}, each once`);
  const pathStyle = query.get("pathStyle") ?? "true";
  if (pathStyle !== "true" && pathStyle !== "false") throw invalid(`s3://${url.host}: pathStyle must be true or false`);
  if (options.credentials === undefined) throw invalid(`s3://${url.host}: credentials are needed`);
  return {
    clock: options.clock,
    logger: options.logger,
    endpoint: query.get("endpoint") ?? "https://s3.amazonaws.com",
    bucket: url.host,
    region: query.get("region") ?? "us-east-1",
    pathStyle: pathStyle === "true",
    credentials: options.credentials,
    ...(options.timers && { timers: options.timers }),
  };
}

/**
 * The port to the object store that keeps the history. Keys are `[A-Za-z0-9._/-]`, without a leading or trailing slash, and no key is
 * a folder of another. Nothing here depends on conditional writes: stores differ in them, so keys are unique per attempt instead.
 * Errors are SluiceError: OBJECT_NOT_FOUND, OBJECT_STORE_UNAVAILABLE (a retry may help; a write that failed with it may still have been
 * done), INVALID_ARGUMENT, and CANCELLED when the caller's signal aborted. One attempt each: whoever calls decides about retries.
 */
export interface ObjectInfo {
  readonly key: string;
  readonly sizeBytes: number;
  /** Milliseconds since 1970, by the store's clock. */
  readonly modifiedAtMs: number;
}
export interface CallOptions {
  /** Of the whole call; of each page for a list. Default: what the adapter finds right for the call. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}
export interface ObjectStore {
  /** Whole object from memory pieces, at most `limits.uploadSinglePutBytesMax`. Resolves when the store says it is stored. */
  put(key: string, body: readonly Uint8Array[], options?: CallOptions): Promise<void>;
  /**
   * Object of unknown or large size, in parts of `partBytes` (at least 5 MiB but for the last). Nothing is visible before the last part.
   * The pieces must stay as they are until the call ends. An error that the body throws is passed on as it is.
   */
  putMultipart(
    key: string,
    body: AsyncIterable<Uint8Array>,
    options?: CallOptions & { readonly partBytes?: number },
  ): Promise<{ readonly sizeBytes: number }>;
  /** Bytes [start, start + length). Throws OBJECT_NOT_FOUND; a range outside the object or a short answer is OBJECT_STORE_UNAVAILABLE. */
  getRange(key: string, start: number, length: number, options?: CallOptions): Promise<Uint8Array>;
  head(key: string, options?: CallOptions): Promise<ObjectInfo | undefined>;
  /** Idempotent: deleting what is not there succeeds. */
  delete(key: string, options?: CallOptions): Promise<void>;
  /** In key order, paged inside. */
  list(prefix: string, options?: CallOptions): AsyncIterable<ObjectInfo>;
  close(): Promise<void>;
}

import type { ObjectStore } from "./port.ts";

/**
 * `store` after `ensure` has succeeded once: every call waits for that, and fails as it does. A failed try is made again by the next call,
 * so a server that comes late is no reason for anybody to end.
 */
export function ensuredObjectStore(store: ObjectStore, ensure: () => Promise<void>): ObjectStore {
  let done: Promise<void> | undefined;
  const ready = (): Promise<void> =>
    (done ??= ensure().catch((error: unknown) => {
      done = undefined;
      throw error;
    }));
  return {
    put: async (...args) => (await ready(), store.put(...args)),
    putMultipart: async (...args) => (await ready(), store.putMultipart(...args)),
    getRange: async (...args) => (await ready(), store.getRange(...args)),
    head: async (...args) => (await ready(), store.head(...args)),
    delete: async (...args) => (await ready(), store.delete(...args)),
    async *list(...args) {
      await ready();
      yield* store.list(...args);
    },
    close: () => store.close(),
  };
}

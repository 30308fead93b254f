import { checkKey, checkPrefix } from "./keys.ts";
import type { ObjectInfo, ObjectStore } from "./port.ts";

/** The objects of `store` whose keys start with `prefix/`, under the rest of their keys: several clusters in one bucket. */
export function prefixedObjectStore(store: ObjectStore, prefix: string): ObjectStore {
  checkKey(prefix);
  const full = (key: string): string => `${prefix}/${key}`;
  const without = (info: ObjectInfo): ObjectInfo => ({ ...info, key: info.key.slice(prefix.length + 1) });
  // async, so that a bad key rejects as it does in every adapter.
  return {
    put: async (key, body, options) => (checkKey(key), store.put(full(key), body, options)),
    putMultipart: async (key, body, options) => (checkKey(key), store.putMultipart(full(key), body, options)),
    getRange: async (key, start, length, options) => (checkKey(key), store.getRange(full(key), start, length, options)),
    head: async (key, options) => {
      checkKey(key);
      const info = await store.head(full(key), options);
      return info && without(info);
    },
    delete: async (key, options) => (checkKey(key), store.delete(full(key), options)),
    async *list(keyPrefix, options) {
      checkPrefix(keyPrefix);
      for await (const info of store.list(full(keyPrefix), options)) yield without(info);
    },
    close: () => store.close(),
  };
}

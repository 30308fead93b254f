/** Runs `work` for each of `all`, at most `parallel` at a time; results in their order. */
export async function inParallel<T, R>(all: readonly T[], parallel: number, work: (one: T) => Promise<R> | R): Promise<R[]> {
  const out: R[] = [];
  let next = 0;
  const run = async (): Promise<void> => {
    while (next < all.length) {
      const i = next++;
      out[i] = await work(all[i] as T);
    }
  };
  await Promise.all(Array.from({ length: Math.min(parallel, all.length) }, run));
  return out;
}

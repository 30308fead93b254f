import { distance } from "fastest-levenshtein";

const WORD_MAX = 249;
/** The word of `known` that was probably meant: a third of it may be wrong, or it was only begun. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  if (word.length > WORD_MAX) return undefined;
  const close = known
    .filter((other) => Math.abs(other.length - word.length) <= Math.max(word.length, other.length) / 3)
    .map((other) => ({ other, far: distance(word.toLowerCase(), other.toLowerCase()) }))
    .filter(({ other, far }) => far <= Math.max(1, Math.floor(Math.max(word.length, other.length) / 3)))
    .toSorted((a, b) => a.far - b.far);
  return close[0]?.other ?? (word.length < 3 ? undefined : known.find((other) => other.startsWith(word)));
}

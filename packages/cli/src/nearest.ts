/** Changes of one character (another, one more, one less, two swapped) between two words. */
function distance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let best = Math.min(rows[i - 1]![j]! + 1, row[j - 1]! + 1, rows[i - 1]![j - 1]! + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) best = Math.min(best, rows[i - 2]![j - 2]! + 1);
      row.push(best);
    }
    rows.push(row);
  }
  return rows[a.length]![b.length]!;
}
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

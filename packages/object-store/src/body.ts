/** The same pieces; tells `onError` what the source itself threw, so that it reaches the caller as it is. */
export async function* watched(body: AsyncIterable<Uint8Array>, onError: (error: unknown) => void): AsyncGenerator<Uint8Array> {
  const iterator = body[Symbol.asyncIterator]();
  try {
    for (;;) {
      let next: IteratorResult<Uint8Array>;
      try {
        next = await iterator.next();
      } catch (error) {
        onError(error);
        throw error;
      }
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    await iterator.return?.();
  }
}

/** Groups of pieces of at most `bytesMax` bytes and `piecesMax` pieces, in order; a larger piece is cut (as views). Empty pieces vanish. */
export function* grouped(pieces: readonly Uint8Array[], bytesMax: number, piecesMax: number): Generator<Uint8Array[]> {
  let group: Uint8Array[] = [];
  let bytes = 0;
  for (const piece of pieces) {
    for (let at = 0; at < piece.length;) {
      const part = piece.subarray(at, at + bytesMax - bytes);
      group.push(part);
      bytes += part.length;
      at += part.length;
      if (bytes < bytesMax && group.length < piecesMax) continue;
      yield group;
      group = [];
      bytes = 0;
    }
  }
  if (bytes > 0) yield group;
}

/** The body in groups of exactly `partBytes` bytes, the last one shorter (never empty). Nothing is copied: pieces must stay as they are. */
export async function* parts(body: AsyncIterable<Uint8Array>, partBytes: number): AsyncGenerator<Uint8Array[]> {
  let part: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of body) {
    for (let at = 0; at < piece.length;) {
      const cut = piece.subarray(at, at + partBytes - bytes);
      part.push(cut);
      bytes += cut.length;
      at += cut.length;
      if (bytes < partBytes) continue;
      yield part;
      part = [];
      bytes = 0;
    }
  }
  if (bytes > 0) yield part;
}

export function totalBytes(pieces: readonly Uint8Array[]): number {
  let bytes = 0;
  for (const piece of pieces) bytes += piece.length;
  return bytes;
}

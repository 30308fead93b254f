import { CommandFailure, exitCodes } from "./exit.ts";

/** A record is at most 8 MiB; as base64 within JSON it is a third more, and headers come on top. */
export const LINE_BYTES_MAX = 64 * 1024 * 1024;

const NEWLINE = 0x0a;

/**
 * Splits a stream of bytes at "\n" (a "\r" before it belongs to the line: the bytes are the user's). The last line needs no end.
 * Gives the lines of one chunk at a time; they are views of it.
 */
export async function* splitLines(input: AsyncIterable<Uint8Array>, lineBytesMax = LINE_BYTES_MAX): AsyncGenerator<Uint8Array[]> {
  let pending: Uint8Array[] = [];
  let pendingBytes = 0;
  let number = 0;
  const keep = (part: Uint8Array): void => {
    pendingBytes += part.length;
    if (pendingBytes > lineBytesMax)
      throw new CommandFailure(
        `line ${number + 1}: MESSAGE_TOO_LARGE: over ${lineBytesMax} bytes, the most that a line may have; the lines before it were read\n` +
          "  A record is at most 8 MiB. Is it the right file, and are its lines ended by \\n?",
        exitCodes.unacknowledged,
      );
    pending.push(part);
  };
  const take = (): Uint8Array => {
    const line = pending.length === 1 ? pending[0]! : Buffer.concat(pending);
    pending = [];
    pendingBytes = 0;
    number++;
    return line;
  };
  for await (const chunk of input) {
    const lines: Uint8Array[] = [];
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE, from); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      keep(chunk.subarray(from, at));
      lines.push(take());
      from = at + 1;
    }
    if (from < chunk.length) keep(chunk.subarray(from));
    if (lines.length > 0) yield lines;
  }
  if (pendingBytes > 0) yield [take()];
}

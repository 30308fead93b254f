/**
 * What the raw probe's processes share: sockets that read into slabs, and the scan of length-prefixed frames in whatever a read returned.
 *
 * Frame: u32 length of the rest, f64 offset (stamped by the broker's role), payload. Acknowledgement: u32 number of frames, cumulative by count.
 */
import net from "node:net";

const SLAB_BYTES = 1024 * 1024;
const SLAB_LEFT_MIN = 64 * 1024;
export const FRAME_HEADER_BYTES = 12;

interface HandleSocket extends net.Socket {
  _handle?: unknown;
}

/** Bump allocator over fresh slabs: each read lands in the free part of the current slab, and nothing is reused. */
function onread(take: (run: Buffer) => void): net.OnReadOpts {
  let slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
  let at = 0;
  return {
    buffer: () => {
      if (SLAB_BYTES - at < SLAB_LEFT_MIN) {
        slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
        at = 0;
      }
      return slab.subarray(at);
    },
    callback: (bytes, buffer) => {
      at += bytes;
      take(Buffer.from(buffer.buffer, buffer.byteOffset, bytes));
      return true;
    },
  };
}

export function connect(port: number, take: (run: Buffer) => void): Promise<net.Socket> {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ port, host: "127.0.0.1", noDelay: true, onread: onread(take) });
    socket.once("connect", () => resolve(socket));
    socket.once("error", reject);
  });
}

/** Serves one connection after the other; prints the port on the first line of standard output. */
export function serve(accept: (socket: net.Socket) => (run: Buffer) => void): void {
  const server = net.createServer({ pauseOnConnect: true }, (accepted: HandleSocket) => {
    let take: (run: Buffer) => void = () => undefined;
    const options = { handle: accepted._handle, readable: true, writable: true, onread: onread((run) => take(run)) };
    accepted._handle = undefined;
    const socket = new net.Socket(options as unknown as net.SocketConstructorOpts);
    socket.setNoDelay(true);
    take = accept(socket);
    socket.on("error", () => socket.destroy());
    socket.resume();
  });
  server.listen(0, "127.0.0.1", () => {
    process.stdout.write(`${(server.address() as net.AddressInfo).port}\n`);
  });
}

/** Counts whole frames over runs that may split one anywhere. `onHeader` sees each header that lies whole within a run. */
export class FrameScan {
  #left = 0;
  #headerBytes = 0;
  #length = 0;
  /** Frames completed by this run. */
  scan(run: Buffer, onHeader?: (at: number) => void): number {
    let frames = 0;
    let at = 0;
    while (at < run.length) {
      if (this.#left > 0) {
        const take = Math.min(this.#left, run.length - at);
        this.#left -= take;
        at += take;
        if (this.#left === 0) frames += 1;
        continue;
      }
      if (this.#headerBytes === 0 && run.length - at >= FRAME_HEADER_BYTES) {
        onHeader?.(at);
        this.#left = run.readUInt32LE(at);
        at += 4;
        continue;
      }
      this.#length |= (run[at] as number) << (8 * this.#headerBytes);
      this.#headerBytes += 1;
      at += 1;
      if (this.#headerBytes === 4) {
        this.#left = this.#length >>> 0;
        this.#length = 0;
        this.#headerBytes = 0;
      }
    }
    return frames;
  }
}

/** Sums the u32 counts of acknowledgements over runs that may split one anywhere. */
export class AckScan {
  #bytes = 0;
  #value = 0;
  scan(run: Buffer): number {
    let frames = 0;
    for (const byte of run) {
      this.#value |= byte << (8 * this.#bytes);
      this.#bytes += 1;
      if (this.#bytes === 4) {
        frames += this.#value >>> 0;
        this.#bytes = 0;
        this.#value = 0;
      }
    }
    return frames;
  }
}

export function ack(frames: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32LE(frames);
  return bytes;
}

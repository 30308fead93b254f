import { codecs as numbers } from "@sluice/core/log";
import type { Codec, Codecs } from "@sluice/core/log";
import { SluiceError } from "@sluice/core/model";
import { lz4Compress, lz4Decompress } from "./lz4.ts";
import { snappyCompress, snappyDecompress } from "./snappy.ts";
import { gunzip, gzip, unzstd, zstd } from "./zlib.ts";

/** The port of `@sluice/core/log` by native libraries. All calls are synchronous: they belong on clients, proxies and worker threads, not on storage nodes. */
export const nativeCodecs: Codecs = {
  compress(codec, bytes) {
    switch (codec) {
      case numbers.none:
        return bytes;
      case numbers.gzip:
        return gzip(bytes);
      case numbers.snappy:
        return snappyCompress(bytes);
      case numbers.lz4:
        return lz4Compress(bytes);
      case numbers.zstd:
        return zstd(bytes);
      default:
        throw unknown(codec);
    }
  },
  decompress(codec, bytes, maxBytes) {
    switch (codec) {
      case numbers.none:
        if (bytes.length > maxBytes) throw new SluiceError("MESSAGE_TOO_LARGE", `${bytes.length} plain bytes, the limit is ${maxBytes}`);
        return bytes;
      case numbers.gzip:
        return gunzip(bytes, maxBytes);
      case numbers.snappy:
        return snappyDecompress(bytes, maxBytes);
      case numbers.lz4:
        return lz4Decompress(bytes, maxBytes);
      case numbers.zstd:
        return unzstd(bytes, maxBytes);
      default:
        throw unknown(codec);
    }
  },
};
const unknown = (codec: never): SluiceError => new SluiceError("UNSUPPORTED_CODEC", `codec ${String(codec as Codec)}`);

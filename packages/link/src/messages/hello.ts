import { serviceKinds, type ServiceKind } from "@sluice/core/model";
import { FrameType } from "../frame.ts";
import { malformed, need, type Codec } from "./codec.ts";
import { writeBytes } from "./tagged.ts";

/** A pair of processes has one link for each purpose, so that a big read never delays an acknowledgement. */
export type LinkPurpose = "log" | "bulk";

/**
 * hello: the first frame of both sides. The layout up to `features` is the same in every version.
 *
 *   0   u32  magic "SLNK"
 *   4   u16  lowest version      6   u16  highest version
 *   8   u32  feature bits 0-31   12  u32  feature bits 32-63
 *   16  u32  cluster generation
 *   20  u32  credit window: bytes of credited frames that the peer may have in flight to the sender of this hello
 *   24  u8   purpose: 1 log, 2 bulk
 *   25  u8   service: 1 proxy, 2 broker, 3 controller, 4 coordinator, 5 segment-store
 *   26  u8   1 = the sender has a cluster secret and wants a proof
 *   27  u8   0
 *   28  16   nonce
 *   44       cluster id, member id, instance, incarnation, zone: each u8 length and UTF-8, incarnation "" when none
 *            then tagged fields, none yet
 */
export interface HelloMessage {
  versionMin: number;
  versionMax: number;
  features: number;
  featuresHigh: number;
  generation: number;
  windowBytes: number;
  purpose: LinkPurpose;
  service: ServiceKind;
  wantsProof: boolean;
  nonce: Uint8Array;
  clusterId: string;
  memberId: string;
  instance: string;
  /** "" = none: only storage nodes have one. */
  incarnation: string;
  zone: string;
}
const MAGIC = 0x4b_4e_4c_53;
const FIXED = 44;
export const HELLO_NONCE_BYTES = 16;
const HELLO_STRING_BYTES_MAX = 255;
const purposes: readonly LinkPurpose[] = ["log", "bulk"];
const utf8 = new TextEncoder();
const utf8In = new TextDecoder("utf-8", { fatal: true });

const stringsOf = (m: Readonly<HelloMessage>): Uint8Array[] =>
  [m.clusterId, m.memberId, m.instance, m.incarnation, m.zone].map((s) => {
    const bytes = utf8.encode(s);
    if (bytes.length > HELLO_STRING_BYTES_MAX) throw new RangeError("hello: a name is over 255 bytes");
    return bytes;
  });

export const helloCodec: Codec<HelloMessage> = {
  type: FrameType.hello,
  create: () => ({
    versionMin: 1,
    versionMax: 1,
    features: 0,
    featuresHigh: 0,
    generation: 0,
    windowBytes: 0,
    purpose: "log",
    service: "proxy",
    wantsProof: false,
    nonce: new Uint8Array(HELLO_NONCE_BYTES),
    clusterId: "",
    memberId: "",
    instance: "",
    incarnation: "",
    zone: "",
  }),
  size: (m) => stringsOf(m).reduce((n, s) => n + 1 + s.length, FIXED),
  encode(m, view, at) {
    view.setUint32(at, MAGIC, true);
    view.setUint16(at + 4, m.versionMin, true);
    view.setUint16(at + 6, m.versionMax, true);
    view.setUint32(at + 8, m.features, true);
    view.setUint32(at + 12, m.featuresHigh, true);
    view.setUint32(at + 16, m.generation, true);
    view.setUint32(at + 20, m.windowBytes, true);
    view.setUint8(at + 24, purposes.indexOf(m.purpose) + 1);
    view.setUint8(at + 25, serviceKinds.indexOf(m.service) + 1);
    view.setUint8(at + 26, m.wantsProof ? 1 : 0);
    view.setUint8(at + 27, 0);
    writeBytes(view, at + 28, m.nonce.subarray(0, HELLO_NONCE_BYTES));
    let to = at + FIXED;
    for (const s of stringsOf(m)) {
      view.setUint8(to, s.length);
      writeBytes(view, to + 1, s);
      to += 1 + s.length;
    }
  },
  decode(frame, into) {
    need(frame, FIXED, "hello");
    const { view, headerAt: at } = frame;
    if (view.getUint32(at, true) !== MAGIC) throw malformed("hello: wrong magic");
    into.versionMin = view.getUint16(at + 4, true);
    into.versionMax = view.getUint16(at + 6, true);
    into.features = view.getUint32(at + 8, true);
    into.featuresHigh = view.getUint32(at + 12, true);
    into.generation = view.getUint32(at + 16, true);
    into.windowBytes = view.getUint32(at + 20, true);
    const purpose = purposes[view.getUint8(at + 24) - 1];
    const service = serviceKinds[view.getUint8(at + 25) - 1];
    if (purpose === undefined || service === undefined) throw malformed("hello: unknown purpose or service");
    into.purpose = purpose;
    into.service = service;
    into.wantsProof = (view.getUint8(at + 26) & 1) === 1;
    into.nonce = new Uint8Array(view.buffer, view.byteOffset + at + 28, HELLO_NONCE_BYTES).slice();
    let from = at + FIXED;
    const text = (): string => {
      if (from >= frame.headerEnd) throw malformed("hello: names are cut");
      const length = view.getUint8(from);
      if (from + 1 + length > frame.headerEnd) throw malformed("hello: names are cut");
      const bytes = new Uint8Array(view.buffer, view.byteOffset + from + 1, length);
      from += 1 + length;
      try {
        return utf8In.decode(bytes);
      } catch {
        throw malformed("hello: a name is not UTF-8");
      }
    };
    into.clusterId = text();
    into.memberId = text();
    into.instance = text();
    into.incarnation = text();
    into.zone = text();
    return into;
  },
};

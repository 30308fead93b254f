import { createHmac, timingSafeEqual } from "node:crypto";
import { limits, type ErrorCode } from "@sluice/core/model";
import { FrameType, type Frame } from "./frame.ts";
import { LINK_WINDOW_BYTES_MAX, type ExpectedPeer, type LinkContext } from "./link.ts";
import { malformed, type Codec } from "./messages/codec.ts";
import { helloCodec, HELLO_NONCE_BYTES, type HelloMessage, type LinkPurpose } from "./messages/hello.ts";
import { writeBytes } from "./messages/tagged.ts";

/**
 * The handshake. P = proof, only when a secret is configured:
 *
 *   connecting side            accepting side
 *   hello  ------------------>
 *          <------------------ hello, P(accept)
 *   P(connect), frames ------>                      open: frames are taken
 *
 * A proof is an HMAC over both hellos as sent (both nonces, both identities), under a label of the side that makes it, so that
 * neither can be replayed or reflected. It proves membership; it does not encrypt.
 */
export const WIRE_VERSION_MIN = 1;
export const WIRE_VERSION_MAX = 1;
/** Feature bits this version offers: none yet. */
export const WIRE_FEATURES = 0;

export type Side = "connect" | "accept";
export interface Refusal {
  readonly code: ErrorCode;
  readonly message: string;
}

/** proof: 32 bytes, HMAC-SHA-256. */
export interface ProofMessage {
  proof: Uint8Array;
}
const PROOF_BYTES = 32;
export const proofCodec: Codec<ProofMessage> = {
  type: FrameType.proof,
  create: () => ({ proof: new Uint8Array(PROOF_BYTES) }),
  size: () => PROOF_BYTES,
  encode: (m, view, at) => writeBytes(view, at, m.proof.subarray(0, PROOF_BYTES)),
  decode(frame, into) {
    if (frame.headerEnd - frame.headerAt !== PROOF_BYTES) throw malformed("proof: not 32 bytes");
    into.proof = headerBytes(frame);
    return into;
  },
};

/** A copy of a frame's header. */
export const headerBytes = (frame: Frame): Uint8Array =>
  new Uint8Array(frame.view.buffer, frame.view.byteOffset + frame.headerAt, frame.headerEnd - frame.headerAt).slice();

const versionMaxOf = (context: LinkContext): number => Math.min(WIRE_VERSION_MAX, context.wireVersionMax ?? WIRE_VERSION_MAX);

export function makeHello(context: LinkContext, purpose: LinkPurpose): HelloMessage {
  return {
    ...context.identity,
    versionMin: WIRE_VERSION_MIN,
    versionMax: versionMaxOf(context),
    features: WIRE_FEATURES,
    featuresHigh: 0,
    windowBytes: Math.min(LINK_WINDOW_BYTES_MAX, context.windowBytes ?? limits.linkCreditBytesDefault),
    purpose,
    wantsProof: context.secret !== undefined,
    nonce: context.random.bytes(HELLO_NONCE_BYTES),
  };
}
/** The header of a hello as it goes over the wire: what the proofs cover. */
export function helloBytes(hello: HelloMessage): Uint8Array {
  const bytes = new Uint8Array(helloCodec.size(hello));
  helloCodec.encode(hello, new DataView(bytes.buffer), 0);
  return bytes;
}

/** The version to speak, or why the peer is refused. */
export function checkHello(own: HelloMessage, peer: HelloMessage, expect: ExpectedPeer = {}): { readonly version: number } | Refusal {
  const version = Math.min(own.versionMax, peer.versionMax);
  if (version < Math.max(own.versionMin, peer.versionMin) || peer.versionMin > peer.versionMax)
    return {
      code: "VERSION_MISMATCH",
      message: `no common link version: ${own.memberId} speaks ${rangeOf(own)}, ${peer.memberId} speaks ${rangeOf(peer)}`,
    };
  if (own.clusterId !== peer.clusterId || own.generation !== peer.generation)
    return {
      code: "CLUSTER_MISMATCH",
      message: `${own.memberId} is of cluster ${clusterOf(own)}, ${peer.memberId} of cluster ${clusterOf(peer)}`,
    };
  if (peer.windowBytes > LINK_WINDOW_BYTES_MAX)
    return { code: "MALFORMED_FRAME", message: `hello: window of ${peer.windowBytes} bytes, limit ${LINK_WINDOW_BYTES_MAX}` };
  if (own.wantsProof !== peer.wantsProof) {
    const without = own.wantsProof ? peer : own;
    return { code: "UNAUTHENTICATED", message: `${without.memberId} has no cluster secret, its peer has one` };
  }
  return checkExpected(peer, expect) ?? { version };
}
function checkExpected(peer: HelloMessage, expect: ExpectedPeer): Refusal | undefined {
  if ((expect.service ?? peer.service) !== peer.service || (expect.memberId ?? peer.memberId) !== peer.memberId)
    return {
      code: "INVALID_ARGUMENT",
      message: `expected ${expect.service ?? "any"} ${expect.memberId ?? "any"} at this address, found ${peer.service} ${peer.memberId}`,
    };
  if ((expect.incarnation ?? peer.incarnation) !== peer.incarnation)
    return { code: "WRONG_INCARNATION", message: `${peer.memberId} has incarnation ${peer.incarnation}, expected ${expect.incarnation}` };
  return undefined;
}
const rangeOf = (h: HelloMessage): string => `${h.versionMin} to ${h.versionMax}`;
const clusterOf = (h: HelloMessage): string => `${h.clusterId} generation ${h.generation}`;

export function makeProof(secret: Uint8Array, side: Side, connectHello: Uint8Array, acceptHello: Uint8Array): Uint8Array {
  const mac = createHmac("sha256", secret).update(`sluice link v1 ${side}\0`);
  const length = new DataView(new ArrayBuffer(4));
  length.setUint32(0, connectHello.length, true);
  return mac.update(new Uint8Array(length.buffer)).update(connectHello).update(acceptHello).digest();
}
export const sameProof = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && timingSafeEqual(a, b);

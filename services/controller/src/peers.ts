import { connect } from "node:net";
import { partitionKey, SluiceError, topicId, type MemberRecord, type Timers } from "@sluice/core/model";
import type { ProbeResult } from "@sluice/core/placement";
import { SegmentStoreService } from "@sluice/proto/internal/v1/segment_store";
import { ChannelPool, createRpcClient } from "@sluice/rpc";
import { parseHostPort, type Clock } from "@sluice/runtime";
import type { PeerAccess } from "./duty.ts";

/** Errors of a connect that prove that nobody listens: the kernel of the other host answers, the process does not. */
const REFUSED: ReadonlySet<string> = new Set(["ECONNREFUSED", "ECONNRESET"]);

export interface NetworkPeers extends PeerAccess {
  close(): void;
}

/** The real ones: a TCP connect, and the control service of a storage node. */
export function createNetworkPeers(options: { readonly clock: Clock; readonly timers: Timers }): NetworkPeers {
  const { clock, timers } = options;
  const channels = new ChannelPool({ clock });
  return {
    probe(address, timeoutMs) {
      const { host, port } = parseHostPort(address);
      return new Promise<ProbeResult>((resolve) => {
        const socket = connect({ host, port });
        const done = (result: ProbeResult): void => {
          timer.cancel();
          socket.destroy();
          resolve(result);
        };
        const timer = clock.setTimer(timeoutMs, () => done("timeout"));
        socket.on("connect", () => done("open"));
        socket.on("error", (error) => done(REFUSED.has((error as NodeJS.ErrnoException).code ?? "") ? "refused" : "timeout"));
      });
    },
    async segmentsOf(node: MemberRecord, signal: AbortSignal) {
      const address = node.endpoints.rpc;
      if (address === undefined) throw new SluiceError("INVALID_ARGUMENT", `storage node ${node.id} offers no rpc endpoint`);
      const client = createRpcClient(SegmentStoreService, channels.get(address));
      const answer = await client.describeNode({}, { timeoutMs: timers.controlCallTimeoutMs, signal });
      if (answer.truncated) throw new SluiceError("OVERLOADED", `storage node ${node.id} holds more segments than it lists`);
      const held = new Set<string>();
      for (const { address: at, status } of answer.segments) {
        if (at === undefined || status === "DELETED") continue;
        held.add(`${partitionKey({ topicId: topicId(at.topicId), partition: at.partition })}/${at.epoch}-${at.k}`);
      }
      return held;
    },
    close: () => channels.close(),
  };
}

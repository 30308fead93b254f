import { SluiceError } from "@sluice/core/model";
import type { Call } from "./admin.ts";
import type { GroupMembership } from "./group-membership.ts";
import type { OffsetInTopic } from "./group-types.ts";
import { firstError, offsetsToWire } from "./group-wire.ts";
import type { CallOptions } from "./types.ts";

/** Commits of one member, one after the other: an older one never lands behind a newer one. */
export class GroupCommits {
  readonly #call: Call;
  readonly #group: string;
  readonly #instanceId: string;
  readonly #membership: GroupMembership;
  #last: Promise<unknown> = Promise.resolve();

  constructor(call: Call, group: string, instanceId: string, membership: GroupMembership) {
    this.#call = call;
    this.#group = group;
    this.#instanceId = instanceId;
    this.#membership = membership;
  }
  /** Fails with the first partition's error; the others may be stored. */
  commit(offsets: readonly OffsetInTopic[], options?: CallOptions): Promise<void> {
    const done = this.#last.then(() => this.#commit(offsets, options));
    this.#last = done.catch(() => undefined);
    return done;
  }

  async #commit(offsets: readonly OffsetInTopic[], options: CallOptions | undefined): Promise<void> {
    if (offsets.length === 0) return;
    const wire = offsetsToWire(offsets);
    await this.#call(async (link, o) => {
      // Each attempt in the epoch of its moment: it may have changed while the answer that tells it was on its way here.
      const { memberId, epoch } = this.#membership;
      if (epoch <= 0) throw new SluiceError("UNKNOWN_MEMBER", `not a member of group ${this.#group} now`);
      const request = { group: this.#group, memberId, memberEpoch: epoch, instanceId: this.#instanceId, offsets: wire };
      const { results } = await link.groups.commit(request, o);
      const error = firstError(results);
      if (error === undefined) return;
      if (error.code === "STALE_MEMBER_EPOCH") this.#membership.wake();
      throw error;
    }, options);
  }
}

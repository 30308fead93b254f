import type { Membership } from "@sluice/catalog";

/** Keeps `diskFull` of the member record as it is: brokers then ask other nodes, and everybody who looks at the cluster sees why. */
export class FullMark {
  readonly #membership: () => Pick<Membership, "record" | "update">;
  /** The last write may or may not be there. */
  #unsure = false;

  constructor(membership: () => Pick<Membership, "record" | "update">) {
    this.#membership = membership;
  }
  /** To be called again and again: it writes when the record says otherwise, also one of a registration that was under way. */
  async set(diskFull: boolean): Promise<void> {
    const membership = this.#membership();
    const { record } = membership;
    // Not registered: the registration will say it.
    if (record === undefined || (!this.#unsure && (record.diskFull ?? false) === diskFull)) return;
    this.#unsure = true;
    await membership.update({ diskFull });
    this.#unsure = false;
  }
}

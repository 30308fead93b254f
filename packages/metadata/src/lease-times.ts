/** Renewals are sent three times per TTL, so that two may be lost. */
export const leaseRenewMs = (ttlMs: number): number => ttlMs / 3;
/** Held back from the TTL for clocks that do not run at quite the same speed. */
export const leaseMarginMs = (ttlMs: number): number => ttlMs / 10;

import type { Timers } from "@sluice/core/model";
import { BrokerService } from "@sluice/proto/internal/v1/broker";
import { defineAccess, implement, type ServiceRegistration } from "@sluice/rpc";
import type { Clock } from "@sluice/runtime";
import type { Ownership } from "../ownership.ts";
import { describeBroker } from "./describe-broker.ts";
import { partitionOffsets } from "./partition-offsets.ts";

const access = defineAccess(BrokerService, {
  partitionOffsets: { resource: "cluster", operation: "internal" },
  describeBroker: { resource: "cluster", operation: "internal" },
});

export function brokerHandlers(ownership: Ownership, clock: Clock, timers: Timers): ServiceRegistration {
  return implement(access, {
    partitionOffsets: partitionOffsets(ownership, clock, timers),
    describeBroker: describeBroker(ownership),
  });
}

import type { Codecs } from "@sluice/core/log";
import type { Timers } from "@sluice/core/model";
import type { Clock, Tracer } from "@sluice/runtime";
import type { ProxyMetrics } from "../metrics.ts";
import type { Positions } from "../positions.ts";
import type { ReadPath } from "../read-path.ts";
import type { Topics } from "../topics.ts";

/** What the handlers of ConsumeService share. */
export interface ConsumeHandlersContext {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly codecs: Codecs;
  readonly topics: Topics;
  readonly positions: Positions;
  readonly reads: ReadPath;
  readonly metrics: ProxyMetrics;
  readonly tracer?: Tracer | undefined;
}

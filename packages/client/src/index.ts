export type * from "./group-types.ts";
export type * from "./sluice-types.ts";
export type * from "./types.ts";
export type { ClientSpan, ClientTracing } from "./tracing.ts";
export { connect } from "./connect.ts";
export { openTelemetry, type OpenTelemetryApi } from "./open-telemetry.ts";
export { asSluiceError, codeOf, type ErrorCode, errorCatalogue, isSluiceError, SluiceError } from "@sluice/core/model";

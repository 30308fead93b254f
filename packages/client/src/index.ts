export type * from "./group-types.ts";
export type * from "./sluice-types.ts";
export type * from "./types.ts";
export { connect } from "./connect.ts";
export { asSluiceError, codeOf, type ErrorCode, errorCatalogue, isSluiceError, SluiceError } from "@sluice/core/model";

import type { ClusterView } from "@sluice/catalog";
import { memberId, SluiceError } from "@sluice/core/model";
import type { TermOfOffice } from "../term.ts";

/** What every handler gets: the view, and the term while this controller leads. */
export interface HandlerContext {
  readonly view: ClusterView;
  readonly term: () => TermOfOffice | undefined;
}
/** Throws NOT_LEADER, naming the leader and its endpoint when they are known. */
export function requireTerm(context: HandlerContext): TermOfOffice {
  const term = context.term();
  if (term?.begun === true) return term;
  const leader = context.view.leader;
  const endpoint = leader && context.view.member("controller", memberId(leader.member))?.endpoints.rpc;
  const who =
    term !== undefined ? "this controller is beginning its term" : leader === undefined ? "nobody leads now" : `${leader.member} leads`;
  throw new SluiceError("NOT_LEADER", endpoint === undefined || term !== undefined ? who : `${who} at ${endpoint}`);
}

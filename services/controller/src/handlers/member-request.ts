import {
  checkName,
  instanceId,
  memberId,
  serviceKinds,
  SluiceError,
  type InstanceId,
  type MemberId,
  type ServiceKind,
} from "@sluice/core/model";

/** The three fields that name one start of one member. Throws INVALID_ARGUMENT or INVALID_NAME. */
export function checkMember(request: { readonly service: string; readonly id: string; readonly instance: string }): {
  service: ServiceKind;
  id: MemberId;
  instance: InstanceId;
} {
  const service = serviceKinds.find((kind) => kind === request.service);
  if (service === undefined) throw new SluiceError("INVALID_ARGUMENT", `service is one of ${serviceKinds.join(", ")}`);
  checkName("member", request.id);
  if (request.instance === "" || request.instance.length > 64) throw new SluiceError("INVALID_ARGUMENT", "instance is 1 to 64 characters");
  return { service, id: memberId(request.id), instance: instanceId(request.instance) };
}

import { asSluiceError, errorCatalogue, type ErrorCode } from "@sluice/core/model";

/** Kafka's error codes that no code of the catalogue stands for, because only its protocol has the case. */
export const KafkaError = {
  none: 0,
  unknownTopicOrPartition: 3,
  notLeaderOrFollower: 6,
  replicaNotAvailable: 9,
  coordinatorLoadInProgress: 14,
  coordinatorNotAvailable: 15,
  notCoordinator: 16,
  invalidRequiredAcks: 21,
  topicAuthorizationFailed: 29,
  groupAuthorizationFailed: 30,
  clusterAuthorizationFailed: 31,
  unsupportedVersion: 35,
  invalidPartitions: 37,
  invalidReplicationFactor: 38,
  invalidReplicaAssignment: 39,
  invalidConfig: 40,
  invalidRequest: 42,
  fetchSessionIdNotFound: 70,
  invalidFetchSessionEpoch: 71,
  unknownLeaderEpoch: 75,
  unsupportedCompressionType: 76,
  invalidRecord: 87,
  unknownTopicId: 100,
  fetchSessionTopicIdError: 106,
  mismatchedEndpointType: 114,
  unsupportedEndpointType: 115,
} as const;

export const kafkaCodeOf = (code: ErrorCode): number => errorCatalogue[code].kafka;

export interface KafkaFailure {
  readonly errorCode: number;
  readonly errorMessage: string;
}
/** Anything thrown, in Kafka's words. */
export function kafkaFailure(thrown: unknown): KafkaFailure {
  const error = asSluiceError(thrown);
  return {
    errorCode: kafkaCodeOf(error.code),
    errorMessage: error.code === "INTERNAL" ? "internal error; the server's log has the cause" : error.message,
  };
}

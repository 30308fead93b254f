import { apis } from "@sluice/kafka-wire";
import { defineHandler, type AnyHandler } from "../api.ts";
import { KafkaError } from "../errors.ts";

const SOFTWARE_NAME = /^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$/;
const NAMED_FROM = 3;

/** What is served. `handlers` is asked for each time: this one is among them. */
export const apiVersions = (handlers: () => readonly AnyHandler[]): AnyHandler =>
  defineHandler({
    api: apis.ApiVersions,
    access: "open",
    pipelined: true,
    handle({ clientSoftwareName, clientSoftwareVersion }, { version }) {
      const isNamed = SOFTWARE_NAME.test(clientSoftwareName) && SOFTWARE_NAME.test(clientSoftwareVersion);
      if (version >= NAMED_FROM && !isNamed) return { errorCode: KafkaError.invalidRequest };
      const apiKeys = handlers()
        .map(({ api, toldMin }) => ({ apiKey: api.key, minVersion: toldMin ?? api.request.min, maxVersion: api.request.max }))
        .sort((a, b) => a.apiKey - b.apiKey);
      return { apiKeys };
    },
  });

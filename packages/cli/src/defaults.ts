/** Ports of the standalone; with `--port-base N` they are N to N + 3. Kafka and HTTP are kept free: this version does not serve them. */
export const defaultPorts = { grpc: 7070, kafka: 9092, http: 8080, metrics: 9600 } as const;
export const DEFAULT_ENDPOINT = `127.0.0.1:${defaultPorts.grpc}`;
export const DEFAULT_DATA_FOLDER = ".sluice";

export const portsFrom = (base: number | undefined): { readonly grpc: number; readonly metrics: number } =>
  base === undefined ? { grpc: defaultPorts.grpc, metrics: defaultPorts.metrics } : { grpc: base, metrics: base + 3 };

/** Ports of the standalone; with `--port-base N` they are N to N + 3. HTTP is kept free: this version does not serve it. */
export const defaultPorts = { grpc: 7070, kafka: 9092, http: 8080, metrics: 9600 } as const;
export const DEFAULT_ENDPOINT = `127.0.0.1:${defaultPorts.grpc}`;
export const DEFAULT_DATA_FOLDER = ".sluice";

export interface StandalonePorts {
  readonly grpc: number;
  readonly kafka: number;
  readonly metrics: number;
}
export const portsFrom = (base: number | undefined): StandalonePorts =>
  base === undefined ? defaultPorts : { grpc: base, kafka: base + 1, metrics: base + 3 };

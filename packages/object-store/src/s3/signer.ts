import { isIP } from "node:net";
import { Client } from "minio";
import { invalid } from "../keys.ts";

/** Who asks. Never from the command line: other users of the machine can read that. */
export interface S3Credentials {
  readonly accessKey: string;
  readonly secretKey: string;
  readonly sessionToken?: string;
}
export interface S3Location {
  /** `http://host:port` or `https://host`. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly region: string;
  /** Bucket in the path (the default) instead of in the host name. */
  readonly pathStyle: boolean;
}

/** A signed URL is used at once; the server checks it when the request arrives. */
const URL_LIFE_SECONDS = 900;

export interface Signer {
  /** URL with the signature in its query and the body unsigned: no byte of it has to be hashed here. `key` is "" for the bucket itself. */
  sign(method: string, key: string, query?: Readonly<Record<string, string>>): Promise<string>;
}

/** The one place that knows the `minio` client: it signs, and sends nothing, because a region is always given. */
export function createSigner(location: S3Location, credentials: S3Credentials): Signer {
  if (credentials.accessKey === "" || credentials.secretKey === "")
    throw invalid(`s3://${location.bucket}: access key and secret key are needed`);
  let endpoint: URL;
  try {
    endpoint = new URL(location.endpoint);
  } catch {
    throw invalid(`s3://${location.bucket}: endpoint ${JSON.stringify(location.endpoint)} is no URL`);
  }
  const hostname = endpoint.hostname.replaceAll(/^\[|\]$/g, "");
  const useSSL = endpoint.protocol === "https:";
  if ((!useSSL && endpoint.protocol !== "http:") || endpoint.pathname !== "/" || endpoint.username !== "" || endpoint.search !== "") {
    throw invalid(`s3://${location.bucket}: endpoint must be http://host:port or https://host:port, without path, user or query`);
  }
  if (!location.pathStyle && isIP(hostname) !== 0) throw invalid(`s3://${location.bucket}: pathStyle=false needs a host name as endpoint`);
  const client = new Client({
    endPoint: hostname,
    port: Number(endpoint.port || (useSSL ? 443 : 80)),
    useSSL,
    accessKey: credentials.accessKey,
    secretKey: credentials.secretKey,
    ...(credentials.sessionToken === undefined ? {} : { sessionToken: credentials.sessionToken }),
    region: location.region,
    pathStyle: location.pathStyle,
  });
  return { sign: (method, key, query) => client.presignedUrl(method, location.bucket, key, URL_LIFE_SECONDS, { ...query }) };
}

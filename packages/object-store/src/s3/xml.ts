import type { ObjectInfo } from "../port.ts";

/**
 * Readers of the few S3 answers that matter here. They look for elements by name and know no namespaces, comments or attributes,
 * which no S3 server sends inside these answers. Hostile text costs one linear pass over at most `listPageBytesMax`.
 */
export interface ListPage {
  readonly objects: readonly ObjectInfo[];
  /** Where the next page starts; undefined on the last. */
  readonly nextToken: string | undefined;
}

/** Undefined when the text is no answer to ListObjectsV2, or one of its entries lacks a field. */
export function parseListPage(xml: string): ListPage | undefined {
  if (!xml.includes("<ListBucketResult")) return undefined;
  const objects: ObjectInfo[] = [];
  for (const contents of elements(xml, "Contents")) {
    const key = element(contents, "Key");
    const sizeBytes = Number(element(contents, "Size") ?? NaN);
    const modifiedAtMs = Date.parse(element(contents, "LastModified") ?? "");
    if (key === undefined || !Number.isSafeInteger(sizeBytes) || sizeBytes < 0 || Number.isNaN(modifiedAtMs)) return undefined;
    objects.push({ key, sizeBytes, modifiedAtMs });
  }
  const truncated = element(xml, "IsTruncated") === "true";
  const nextToken = element(xml, "NextContinuationToken");
  if (truncated && (nextToken === undefined || nextToken === "")) return undefined;
  return { objects, nextToken: truncated ? nextToken : undefined };
}

/** The code and message of an error answer; empty strings when there are none (HEAD has no body). */
export function parseError(xml: string): { readonly code: string; readonly message: string } {
  const error = elements(xml, "Error").next().value ?? "";
  return { code: element(error, "Code") ?? "", message: element(error, "Message") ?? "" };
}

export const parseUploadId = (xml: string): string | undefined => element(xml, "UploadId");

/** The request that ends a multipart upload: the entity tags of its parts, in order. */
export function completeUploadBody(etags: readonly string[]): string {
  const parts = etags.map((etag, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${escaped(etag)}</ETag></Part>`);
  return `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${parts.join("")}</CompleteMultipartUpload>`;
}

/** The request that makes a bucket in a region; us-east-1 wants none. */
export const createBucketBody = (region: string): string =>
  `<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><LocationConstraint>${escaped(region)}</LocationConstraint></CreateBucketConfiguration>`;

function* elements(xml: string, name: string): Generator<string, undefined> {
  const open = `<${name}>`;
  const close = `</${name}>`;
  for (let at = xml.indexOf(open); at >= 0;) {
    const end = xml.indexOf(close, at);
    if (end < 0) return;
    yield xml.slice(at + open.length, end);
    at = xml.indexOf(open, end);
  }
}

function element(xml: string, name: string): string | undefined {
  const text = elements(xml, name).next().value;
  return text === undefined ? undefined : unescaped(text);
}

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
const unescaped = (text: string): string =>
  text.replaceAll(/&(#x[0-9a-fA-F]{1,6}|#[0-9]{1,7}|[a-z]{2,4});/g, (whole, name: string) => {
    if (!name.startsWith("#")) return ENTITIES[name] ?? whole;
    const point = name.startsWith("#x") ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1));
    return point <= 0x10ffff ? String.fromCodePoint(point) : whole;
  });
const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

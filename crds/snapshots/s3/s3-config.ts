import * as v from "valibot";

/** The place of archives in object storage. */
export interface S3Place {
  readonly kind: "s3";
  readonly bucket: string;
  /** May be empty. Without a slash at its end. */
  readonly prefix: string;
  /** Such as `https://s3.eu-central-1.amazonaws.com`. */
  readonly endpoint: string;
  readonly region: string;
  /** Whether the bucket is in the path, and not in the host's name. */
  readonly isPathStyle: boolean;
  /** Headers that request encryption by the server. Without them, the bucket's default applies. */
  readonly encryption: Readonly<Record<string, string>>;
}

const URL_FORM = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/([A-Za-z0-9._/-]*))?$/;
const flag = v.picklist(["true", "false"], "must be true or false");

/** The variables of a store in object storage; `TENANCY_SNAPSHOT_STORE` chooses it. */
export const s3Environment = {
  TENANCY_SNAPSHOT_STORE: v.optional(
    v.pipe(
      v.string(),
      v.check(
        (text) => text === "volume" || parseUrl(text) !== undefined,
        "must be volume, or s3://bucket/prefix with a prefix of letters, digits, dots, dashes, underscores and slashes",
      ),
    ),
    "volume",
  ),
  TENANCY_SNAPSHOT_ENDPOINT: v.optional(
    v.pipe(v.string(), v.check(isEndpoint, "must be http://host or https://host, with :port and path where needed")),
  ),
  TENANCY_SNAPSHOT_REGION: v.optional(
    v.pipe(v.string(), v.regex(/^[a-z0-9-]{1,32}$/, "must be the name of a region, such as eu-central-1")),
  ),
  TENANCY_SNAPSHOT_PATH_STYLE: v.optional(flag),
  TENANCY_SNAPSHOT_SSE: v.optional(
    v.picklist(["AES256", "aws:kms", "aws:kms:dsse"], "must be AES256, aws:kms or aws:kms:dsse"),
  ),
  TENANCY_SNAPSHOT_KMS_KEY: v.optional(
    v.pipe(v.string(), v.regex(/^[!-~]+$/, "must be the id, ARN or alias of a KMS key")),
  ),
};

type S3Values = v.InferOutput<v.ObjectSchema<typeof s3Environment, undefined>>;

/**
 * The place in object storage; undefined if archives are kept on a volume.
 *
 * @throws Error that names the variable which is missing or has no effect
 */
export function s3Place(values: S3Values): S3Place | undefined {
  const given = parseUrl(values.TENANCY_SNAPSHOT_STORE);
  if (given === undefined) {
    const [surplus] = Object.keys(s3Environment).filter(
      (name) => name !== "TENANCY_SNAPSHOT_STORE" && values[name as keyof S3Values] !== undefined,
    );
    if (surplus === undefined) return undefined;
    throw new Error(`${surplus} is set, which is for object storage: set TENANCY_SNAPSHOT_STORE to s3://bucket/prefix`);
  }
  const { TENANCY_SNAPSHOT_ENDPOINT: endpoint, TENANCY_SNAPSHOT_REGION: region } = values;
  if (region === undefined && endpoint === undefined) {
    throw new Error(
      "TENANCY_SNAPSHOT_REGION is unset: set it to the bucket's region, or TENANCY_SNAPSHOT_ENDPOINT to another server",
    );
  }
  const { TENANCY_SNAPSHOT_SSE: sse, TENANCY_SNAPSHOT_KMS_KEY: key } = values;
  if (key !== undefined && (sse === undefined || sse === "AES256")) {
    throw new Error("TENANCY_SNAPSHOT_KMS_KEY is set: set TENANCY_SNAPSHOT_SSE to aws:kms or aws:kms:dsse");
  }
  const style = values.TENANCY_SNAPSHOT_PATH_STYLE;
  // A certificate for *.host is not valid for a name with one more dot.
  const isPathStyle = style === undefined ? endpoint !== undefined || given.bucket.includes(".") : style === "true";
  return {
    kind: "s3",
    ...given,
    // Servers with only one region accept any name, or at least this one.
    region: region ?? "us-east-1",
    endpoint: (endpoint ?? amazonEndpoint("s3", region ?? "")).replace(/\/+$/, ""),
    isPathStyle,
    encryption: {
      ...(sse !== undefined && { "x-amz-server-side-encryption": sse }),
      ...(key !== undefined && { "x-amz-server-side-encryption-aws-kms-key-id": key }),
    },
  };
}

/** Follows https://docs.aws.amazon.com/general/latest/gr/rande.html */
export function amazonEndpoint(service: "s3" | "sts", region: string): string {
  return `https://${service}.${region}.amazonaws.com${region.startsWith("cn-") ? ".cn" : ""}`;
}

/** The name of a store for people. It contains the endpoint, since two servers can have a bucket of the same name. */
export function describeS3Place({ bucket, prefix, endpoint }: S3Place): string {
  const path = prefix === "" ? bucket : `${bucket}/${prefix}`;
  return new URL(endpoint).hostname.endsWith(".amazonaws.com") ? `s3://${path}` : `s3://${path} at ${endpoint}`;
}

function parseUrl(text: string): { bucket: string; prefix: string } | undefined {
  const [, bucket, path = ""] = URL_FORM.exec(text) ?? [];
  const prefix = path.replace(/\/$/, "");
  if (bucket === undefined || bucket.includes("..")) return undefined;
  const isPlain = prefix === "" || prefix.split("/").every((part) => !["", ".", ".."].includes(part));
  return isPlain && prefix.length <= 512 ? { bucket, prefix } : undefined;
}

function isEndpoint(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, search, hash, username, password } = new URL(text);
  return /^https?:$/.test(protocol) && [search, hash, username, password].every((part) => part === "");
}

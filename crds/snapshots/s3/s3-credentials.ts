import { readFile } from "node:fs/promises";
import * as v from "valibot";
import { type Clock, systemClock } from "../../client/clock.ts";
import { parseForeignJson } from "../../foreign-json.ts";
import type { Log } from "../../log.ts";
import { StoreError } from "../snapshot-store.ts";
import { elementOf, type S3Credentials } from "./s3-client.ts";
import { amazonEndpoint } from "./s3-config.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Temporary credentials. */
interface LentCredentials extends S3Credentials {
  /** Milliseconds since 1970; undefined if unknown. */
  readonly endsAt: number | undefined;
}

const REFRESH_BEFORE_MS = 5 * 60_000;
/** Credentials that expire sooner are not used, since clocks differ. */
const LEAST_LEFT_MS = 30_000;
const AGAIN_MS = 10_000;
const READ_LIMIT_MS = 10_000;
/** The hosts that containers on AWS get credentials from over plain HTTP. */
const CONTAINER_HOSTS = new Set([
  "169.254.170.2",
  "169.254.170.23",
  "[fd00:ec2::23]",
  "127.0.0.1",
  "localhost",
  "[::1]",
]);

const USAGE =
  "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN where they have one), or give the service account " +
  "a role: AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN, or AWS_CONTAINER_CREDENTIALS_FULL_URI";

/**
 * The credentials for object storage, from the environment variables of the AWS SDKs: keys, a web identity for the
 * security token service, or a container's. Temporary credentials are renewed five minutes before they expire.
 * Simultaneous callers share one renewal.
 *
 * Follows https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
 *
 * @returns a function that gives the credentials, and not again those that a server has refused
 * @throws Error that names what is missing
 */
export function createS3Credentials(options: {
  env: Environment;
  region: string;
  clock?: Clock | undefined;
  log?: Log | undefined;
  fetch?: typeof fetch | undefined;
}): (stale?: S3Credentials) => Promise<S3Credentials> {
  const { env, region, clock = systemClock, log } = options;
  const set = (name: string): string | undefined => env[name] || undefined;
  const [accessKeyId, secretAccessKey] = [set("AWS_ACCESS_KEY_ID"), set("AWS_SECRET_ACCESS_KEY")];
  if (accessKeyId !== undefined && secretAccessKey !== undefined) {
    const fixed = { accessKeyId, secretAccessKey, sessionToken: set("AWS_SESSION_TOKEN") };
    return async () => fixed;
  }
  if (accessKeyId !== undefined || secretAccessKey !== undefined) {
    const missing = accessKeyId === undefined ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY";
    throw new Error(
      `Cannot find credentials for object storage: ${missing} is unset, but the other key variable is set`,
    );
  }
  const send = createRequest(options.fetch ?? fetch);
  const [tokenFile, roleArn] = [set("AWS_WEB_IDENTITY_TOKEN_FILE"), set("AWS_ROLE_ARN")];
  if (tokenFile !== undefined && roleArn !== undefined) {
    const endpoint = set("AWS_ENDPOINT_URL_STS") ?? amazonEndpoint("sts", region);
    const sessionName = set("AWS_ROLE_SESSION_NAME") ?? "tenancy";
    return renewed(() => assumeRole({ send, endpoint, tokenFile, roleArn, sessionName }), { clock, log });
  }
  const [relative, full] = ["RELATIVE_URI", "FULL_URI"].map((name) => set(`AWS_CONTAINER_CREDENTIALS_${name}`));
  const uri = relative === undefined ? full : `http://169.254.170.2${relative}`;
  if (uri !== undefined) {
    const url = containerUrl(uri);
    const token = set("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    const authorizationFile = set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    return renewed(() => askContainer({ send, url, token, authorizationFile }), { clock, log });
  }
  throw new Error(`Cannot find credentials for object storage: ${USAGE}`);
}

/** Caches credentials until shortly before they expire. */
function renewed(
  read: () => Promise<LentCredentials>,
  { clock, log }: { clock: Clock; log: Log | undefined },
): (stale?: S3Credentials) => Promise<S3Credentials> {
  let kept: LentCredentials | undefined;
  let reading: Promise<LentCredentials> | undefined;
  let notBefore = 0;

  function renew(): Promise<LentCredentials> {
    reading ??= read()
      .then((fresh) => {
        kept = fresh;
        return fresh;
      })
      .finally(() => {
        reading = undefined;
      });
    return reading;
  }

  return async (stale) => {
    const leftMs = kept === undefined ? 0 : (kept.endsAt ?? Number.POSITIVE_INFINITY) - clock.now();
    if (kept === undefined || leftMs <= LEAST_LEFT_MS || stale === kept) return await renew();
    if (leftMs <= REFRESH_BEFORE_MS && clock.now() >= notBefore) {
      notBefore = clock.now() + AGAIN_MS;
      renew().catch((error: unknown) =>
        log?.warn({ error }, "cannot renew the credentials, the last ones stay in use"),
      );
    }
    return kept;
  };
}

type Send = (what: string, url: string, init?: RequestInit) => Promise<string>;

function createRequest(fetchIt: typeof fetch): Send {
  return async (what, url, init) => {
    const { host } = new URL(url);
    try {
      const signal = AbortSignal.timeout(READ_LIMIT_MS);
      const response = await fetchIt(url, { ...init, redirect: "error", signal });
      const text = await response.text();
      if (response.ok) return text;
      const why = elementOf(text, "Message") ?? text.slice(0, 200);
      throw new StoreError(`Cannot ${what}: ${host} responded ${response.status} ${why}`.trim(), {
        isTransient: response.status >= 500 || response.status === 429,
      });
    } catch (error) {
      if (error instanceof StoreError) throw error;
      throw new StoreError(`Cannot ${what}: ${host}: ${reasonOf(error)}`, { cause: error, isTransient: true });
    }
  };
}

/** Follows https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html */
async function assumeRole(options: {
  send: Send;
  endpoint: string;
  tokenFile: string;
  roleArn: string;
  sessionName: string;
}): Promise<LentCredentials> {
  const { send, endpoint, tokenFile, roleArn, sessionName } = options;
  const token = await readToken(tokenFile);
  const form = {
    ...{ Action: "AssumeRoleWithWebIdentity", Version: "2011-06-15", RoleArn: roleArn },
    ...{ RoleSessionName: sessionName, WebIdentityToken: token },
  };
  const what = `assume the role ${roleArn}`;
  const xml = await send(what, endpoint, {
    method: "POST",
    body: new URLSearchParams(form).toString(),
    headers: { "content-type": "application/x-www-form-urlencoded", accept: "application/xml" },
  });
  return lent(what, {
    AccessKeyId: elementOf(xml, "AccessKeyId"),
    SecretAccessKey: elementOf(xml, "SecretAccessKey"),
    Token: elementOf(xml, "SessionToken"),
    Expiration: elementOf(xml, "Expiration"),
  });
}

/** Follows https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html */
async function askContainer(options: {
  send: Send;
  url: string;
  token: string | undefined;
  authorizationFile: string | undefined;
}): Promise<LentCredentials> {
  const { send, url, authorizationFile } = options;
  const authorization = authorizationFile === undefined ? options.token : await readToken(authorizationFile);
  const what = "get the container's credentials";
  const text = await send(what, url, { headers: authorization === undefined ? {} : { authorization } });
  let read: unknown;
  try {
    read = parseForeignJson(text);
  } catch (cause) {
    throw new StoreError(`Cannot ${what}: the response is not JSON`, { cause, isTransient: true });
  }
  return lent(what, read);
}

const lentSchema = v.object({
  AccessKeyId: v.string(),
  SecretAccessKey: v.string(),
  Token: v.optional(v.string()),
  Expiration: v.optional(v.pipe(v.string(), v.transform(Date.parse), v.number())),
});

function lent(what: string, read: unknown): LentCredentials {
  const parsed = v.safeParse(lentSchema, read);
  if (!parsed.success) throw new StoreError(`Cannot ${what}: the response has no credentials`, { isTransient: true });
  const { AccessKeyId: accessKeyId, SecretAccessKey: secretAccessKey, Token, Expiration } = parsed.output;
  return { accessKeyId, secretAccessKey, sessionToken: Token, endsAt: Expiration };
}

/** Reads the token. It is not cached, since the kubelet rotates it. */
async function readToken(path: string): Promise<string> {
  try {
    return (await readFile(path, "utf8")).trim();
  } catch (cause) {
    throw new StoreError(`Cannot read a token: ${reasonOf(cause)}`, { cause, isTransient: true });
  }
}

function containerUrl(uri: string): string {
  const url = URL.canParse(uri) ? new URL(uri) : undefined;
  if (url?.protocol === "https:" || (url?.protocol === "http:" && CONTAINER_HOSTS.has(url.hostname))) return url.href;
  throw new Error(
    `Cannot ask ${uri} for credentials: AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or on this machine`,
  );
}

/** The message of an error. For an error of `fetch`, only its cause says what happened. */
function reasonOf(error: unknown): string {
  const { cause = error } = error as Error;
  return cause instanceof Error ? cause.message : String(cause);
}

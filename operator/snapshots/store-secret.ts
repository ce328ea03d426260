import { createPrivateKey, randomBytes, X509Certificate } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { ApiError } from "../../crds/client/api-error.ts";
import { secrets } from "../../crds/client/built-in-resources.ts";
import type { Cluster } from "../../crds/client/cluster.ts";
import type { Secret } from "../../crds/kubernetes.ts";
import type { Log } from "../../crds/log.ts";
import { SECRET_KEYS } from "../../crds/snapshots/store-endpoint.ts";
import { NAMES_SECRET, SNAPSHOTS_LABELS, SNAPSHOTS_NAME } from "../../crds/snapshots/store-folder.ts";
import { makeSelfSigned } from "./self-signed.ts";

const DAY_MS = 24 * 3_600_000;
const VALID_MS = 365 * DAY_MS;
const RENEWED_BEFORE_MS = 30 * DAY_MS;
/** The certificate is valid from so much earlier, for clocks that are behind. */
const EARLIER_MS = 3_600_000;
/** The kubelet takes up to some minutes to update a mounted Secret. */
const OVERLAP_MS = 3_600_000;
/** No watch shows when a person empties the Secret, and until it is filled again no client has a token. */
const LONGEST_MS = 60_000;

type Data = Readonly<Record<string, string>>;

/**
 * Fills the helper pod's Secret with a certificate, its key and tokens. If a person has emptied it, they are created
 * again. Before the certificate ends they are renewed, and the previous ones are accepted for another hour. A second
 * Secret gets what a client needs that may only list names.
 *
 * @returns in how many milliseconds to look again
 * @throws ApiError 403 if the Secret does not exist and may not be created
 */
export async function ensureStoreSecret(options: {
  cluster: Cluster;
  namespace: string;
  nowMs: number;
  /** Called with the times of the present certificate, also if it cannot be renewed. */
  onCertificate?: ((times: { endsAt: Date; renewAt: Date }) => void) | undefined;
  log?: Log | undefined;
}): Promise<number> {
  const { cluster, namespace, nowMs, onCertificate, log } = options;
  const reference = { namespace, name: SNAPSHOTS_NAME };
  const present = await cluster(secrets).named(SNAPSHOTS_NAME).find();
  const before = decoded(present?.data);
  const { data, nextMs } = renew(before, nowMs);
  report(before);
  if (data !== undefined) {
    await write(reference, { present, data, cluster });
    report(data);
  }
  // This runs each minute: log a failure only when the data has changed.
  await ensureNamesSecret(data ?? before, { cluster, namespace, log: data === undefined ? undefined : log });
  return Math.min(nextMs, LONGEST_MS);

  function report(data: Data): void {
    const { until } = validity(data) ?? {};
    if (until === undefined) return;
    onCertificate?.({ endsAt: new Date(until), renewAt: new Date(until - RENEWED_BEFORE_MS) });
  }
}

async function ensureNamesSecret(
  data: Data,
  { cluster, namespace, log }: { cluster: Cluster; namespace: string; log: Log | undefined },
): Promise<void> {
  const { token, tokenBefore, namesToken, namesTokenBefore, certificate, certificateBefore } = SECRET_KEYS;
  const wanted = Object.entries({
    ...{ [certificate]: data[certificate], [certificateBefore]: data[certificateBefore] },
    ...{ [token]: data[namesToken], [tokenBefore]: data[namesTokenBefore] },
  }).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const reference = { namespace, name: NAMES_SECRET };
  try {
    const present = await cluster(secrets).named(NAMES_SECRET).find();
    if (present !== undefined && isDeepStrictEqual(decoded(present.data), Object.fromEntries(wanted))) return;
    await write(reference, { present, data: Object.fromEntries(wanted), cluster });
  } catch (error) {
    // The Role of an earlier version forbids it. Saves and restores do not need this Secret.
    if (!(error instanceof ApiError && error.status === 403)) throw error;
    log?.warn({ error, secret: NAMES_SECRET }, "cannot fill a Secret: apply the manifests of this version");
  }
}

async function write(
  reference: { namespace: string; name: string },
  { present, data, cluster }: { present: Secret | undefined; data: Data; cluster: Cluster },
): Promise<void> {
  if (present === undefined) {
    const metadata = { ...reference, labels: SNAPSHOTS_LABELS };
    await cluster(secrets).create({ metadata, type: "Opaque", data: encodedOf(data) });
    return;
  }
  const { metadata, type } = present;
  await cluster(secrets)
    .of(present)
    .replace({ metadata, type, data: encodedOf(data) } as Secret);
}

/** The data to write, undefined if nothing has changed, and when to look again. */
function renew(present: Data, nowMs: number): { data?: Data | undefined; nextMs: number } {
  const { certificate, key, token, namesToken, certificateBefore, tokenBefore, namesTokenBefore } = SECRET_KEYS;
  const valid = validity(present);
  const renewAt = (valid?.until ?? 0) - RENEWED_BEFORE_MS;
  if (valid === undefined || nowMs >= renewAt) {
    const from = new Date(nowMs - EARLIER_MS);
    const made = makeSelfSigned({ name: SNAPSHOTS_NAME, from, until: new Date(nowMs + VALID_MS) });
    const former = valid && {
      [certificateBefore]: present[certificate] ?? "",
      [tokenBefore]: present[token] ?? "",
      ...(present[namesToken] && { [namesTokenBefore]: present[namesToken] }),
    };
    const own = { [key]: made.key, [certificate]: made.certificate, [token]: newToken(), [namesToken]: newToken() };
    return { data: { ...own, ...former }, nextMs: former === undefined ? LONGEST_MS : OVERLAP_MS };
  }
  // A Secret that an earlier version filled has no token for names.
  const added = present[namesToken] ? undefined : { ...present, [namesToken]: newToken() };
  const hasFormer = [certificateBefore, tokenBefore, namesTokenBefore].some((name) => present[name] !== undefined);
  const overlapEnds = valid.from + EARLIER_MS + OVERLAP_MS;
  if (!hasFormer) return { data: added, nextMs: renewAt - nowMs };
  if (nowMs < overlapEnds) return { data: added, nextMs: overlapEnds - nowMs };
  const { [certificateBefore]: _, [tokenBefore]: __, [namesTokenBefore]: ___, ...data } = added ?? present;
  return { data, nextMs: renewAt - nowMs };
}

/** When the certificate is valid; undefined if the Secret is incomplete. */
function validity(data: Data): { from: number; until: number } | undefined {
  const [certificate, key, token] = [SECRET_KEYS.certificate, SECRET_KEYS.key, SECRET_KEYS.token].map(
    (name) => data[name],
  );
  if (!certificate || !key || !token) return undefined;
  try {
    const read = new X509Certificate(certificate);
    if (!read.checkPrivateKey(createPrivateKey(key))) return undefined;
    return { from: Date.parse(read.validFrom), until: Date.parse(read.validTo) };
  } catch {
    // The value is no certificate, or no key.
    return undefined;
  }
}

function newToken(): string {
  return randomBytes(32).toString("hex");
}

function decoded(data: Data = {}): Data {
  const texts = Object.entries(data).map(([name, value]) => [name, Buffer.from(value, "base64").toString("utf8")]);
  return Object.fromEntries(texts) as Data;
}

function encodedOf(data: Data): Record<string, string> {
  return Object.fromEntries(Object.entries(data).map(([name, value]) => [name, Buffer.from(value).toString("base64")]));
}

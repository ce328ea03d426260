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
/** For clocks that are behind. */
const EARLIER_MS = 3_600_000;
/** The kubelet takes up to some minutes to show a pod what is in a Secret. */
const OVERLAP_MS = 3_600_000;
/** Nobody tells when a person empties it, and until it is filled again no client has a token. */
const LONGEST_MS = 60_000;

type Data = Readonly<Record<string, string>>;

/**
 * Sees to it that the Secret of the helper pod has a certificate with its key, and its tokens: where a person has
 * emptied it, they are made anew; before the certificate ends they are renewed, and for an hour the former ones count as
 * well. What whoever may only ask for names needs of it is copied to a Secret of its own.
 *
 * @returns in how many milliseconds to look again
 * @throws ApiError 403 where there is no such Secret and none may be made
 */
export async function ensureStoreSecret(options: {
  cluster: Cluster;
  namespace: string;
  nowMs: number;
  /** Called with the certificate that is there, also where it cannot be renewed. */
  onCertificate?: ((times: { endsAt: Date; renewAt: Date }) => void) | undefined;
  log?: Log | undefined;
}): Promise<number> {
  const { cluster, namespace, nowMs, onCertificate, log } = options;
  const reference = { namespace, name: SNAPSHOTS_NAME };
  const present = await cluster(secrets).named(SNAPSHOTS_NAME).find();
  const before = decoded(present?.data);
  const { data, nextMs } = renew(before, nowMs);
  tell(before);
  if (data !== undefined) {
    await write(reference, { present, data, cluster });
    tell(data);
  }
  // What is looked at each minute is told when it changes.
  await ensureNamesSecret(data ?? before, { cluster, namespace, log: data === undefined ? undefined : log });
  return Math.min(nextMs, LONGEST_MS);

  function tell(data: Data): void {
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
    // With the manifests of the version before; saves and restores do not wait for it.
    if (!(error instanceof ApiError && error.status === 403)) throw error;
    log?.warn({ error, secret: NAMES_SECRET }, "a Secret cannot be filled: apply the manifests of this version");
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

/** What is to be written, and when to look again; `data` undefined: it is well as it is. */
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
  // What an earlier version has filled has none.
  const added = present[namesToken] ? undefined : { ...present, [namesToken]: newToken() };
  const hasFormer = [certificateBefore, tokenBefore, namesTokenBefore].some((name) => present[name] !== undefined);
  const overlapEnds = valid.from + EARLIER_MS + OVERLAP_MS;
  if (!hasFormer) return { data: added, nextMs: renewAt - nowMs };
  if (nowMs < overlapEnds) return { data: added, nextMs: overlapEnds - nowMs };
  const { [certificateBefore]: _, [tokenBefore]: __, [namesTokenBefore]: ___, ...data } = added ?? present;
  return { data, nextMs: renewAt - nowMs };
}

/** Between which times the certificate is valid; undefined where the Secret does not hold all that it takes. */
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
    // What is there is no certificate, or no key.
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

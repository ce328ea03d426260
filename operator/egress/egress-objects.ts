import type { ConfigMap, OwnerReference, Secret } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import type { SecretReference } from "../../crds/schema/schema.ts";
import type { CertifiedKey } from "./certificates.ts";
import type { EgressCertificates } from "./egress-certificates.ts";
import { egressNames } from "./egress-names.ts";
import { type EgressRules, valueFile, valueVariable } from "./egress-rules.ts";
import { renderProxyConfig } from "./render-proxy-config.ts";

/**
 * A file in the folder of leaves, so that pods have the folder that were created before the workload had credentials.
 */
export const EMPTY_FILE = "empty";

/** The state of a workload's objects at the last check, and until when no other check is needed. */
export interface EnsuredEgress {
  readonly generation: number;
  readonly untilMs: number;
  readonly versions: EgressVersions;
}

/** The resourceVersion of each checked object; undefined for those that the workload does not need. */
export interface EgressVersions {
  readonly settings: string | undefined;
  readonly leaves: string | undefined;
  readonly authority: string | undefined;
  /** The version of each Secret that a credential names. */
  readonly named: ReadonlyMap<string, string | undefined>;
}

export interface EgressObjectsOptions {
  readonly workload: string;
  readonly namespace: string;
  /** The workload: the objects are deleted with it. */
  readonly owner: OwnerReference;
  readonly rules: EgressRules;
  /** Undefined without credentials. */
  readonly certificates?: EgressCertificates | undefined;
  /**
   * The Secrets that exist and may be used. The values of others are left out, and the proxy answers 503 for them.
   * @default all
   */
  readonly usableSecrets?: ReadonlySet<string> | undefined;
  /** Private ranges that names may resolve to. @default none */
  readonly openedRanges?: readonly string[] | undefined;
  /** PEM of authorities that the proxy and the workload trust in addition to the public ones. @default none */
  readonly extraAuthorities?: string | undefined;
}

/** The objects that the pods of a workload with a proxy mount, and the authority, which no pod mounts. */
export interface EgressObjects {
  readonly settings: ConfigMap;
  readonly leaves: Secret | undefined;
  readonly authority: Secret | undefined;
}

/** Renders the objects of a workload's proxy. None of them has a value of a credential. */
export function egressObjects(options: EgressObjectsOptions): EgressObjects {
  const {
    workload,
    namespace,
    owner,
    rules,
    certificates,
    usableSecrets,
    openedRanges,
    extraAuthorities = "",
  } = options;
  const names = egressNames(workload);
  const metadata = (name: string) => ({
    name,
    namespace,
    labels: { [label.managed]: "true", [label.workload]: workload },
    ownerReferences: [owner],
  });
  const references = rules.credentials.flatMap(({ headers }) => headers.map(({ value }) => value));
  // Pods mount the named Secrets, also if one is replaced later. Their proxies read only the listed values.
  const usable = references.filter(({ name }) => usableSecrets?.has(name) ?? true);
  const values = usable.map((reference) => `${valueVariable(reference)} ${valueFile(reference)}\n`);
  return {
    settings: {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: metadata(names.settings),
      data: {
        "haproxy.cfg": renderProxyConfig({ rules, openedRanges }),
        "opened.list": openedList(rules, usable),
        "values.list": [...new Set(values)].sort().join(""),
        "ca.pem": certificates?.authority.certificate ?? "",
        "extra-ca.pem": extraAuthorities,
        [EMPTY_FILE]: "",
      },
    },
    leaves: certificates && {
      apiVersion: "v1",
      kind: "Secret",
      type: "Opaque",
      metadata: metadata(names.leaves),
      data: Object.fromEntries([...certificates.leaves].map(([file, leaf]) => [file, base64(pairPem(leaf))])),
    },
    authority: certificates && {
      apiVersion: "v1",
      kind: "Secret",
      type: "Opaque",
      metadata: metadata(names.authority),
      data: {
        "ca.crt": base64(certificates.authority.certificate),
        "ca.key": base64(certificates.authority.key),
      },
    },
  };
}

/**
 * What the proxy opens, a line each: the names that may be reached, `*` for all, and the headers that are set. A line
 * that is missing in a later list closes something.
 */
function openedList({ allowed, credentials }: EgressRules, usable: readonly SecretReference[]): string {
  const lines = [
    ...(allowed?.map(({ text }) => `name ${text}`) ?? ["name *"]),
    ...credentials.flatMap(({ domain, headers }) => [
      `credential ${domain.text}`,
      ...headers
        .filter(({ value }) => usable.includes(value))
        .map(({ name, value }) => `header ${domain.text} ${name} ${valueVariable(value)}`),
    ]),
  ];
  return lines.map((line) => `${line}\n`).join("");
}

/** Reads the certificates back from the Secrets of {@link egressObjects}; undefined for missing ones. */
export function presentCertificates(secrets: {
  readonly leaves: Secret | undefined;
  readonly authority: Secret | undefined;
}): { authority: CertifiedKey | undefined; leaves: Map<string, CertifiedKey> } {
  const { "ca.crt": certificate, "ca.key": key } = secrets.authority?.data ?? {};
  const leaves = Object.entries(secrets.leaves?.data ?? {}).map(([file, content]) => {
    const pem = plain(content);
    const border = pem.indexOf("-----BEGIN PRIVATE KEY-----");
    return [file, { certificate: pem.slice(0, Math.max(border, 0)), key: pem.slice(border) }] as const;
  });
  return {
    authority:
      certificate === undefined || key === undefined ? undefined : { certificate: plain(certificate), key: plain(key) },
    leaves: new Map(leaves),
  };
}

function pairPem({ certificate, key }: CertifiedKey): string {
  return `${certificate.trimEnd()}\n${key}`;
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}

function plain(content: string): string {
  return Buffer.from(content, "base64").toString("utf8");
}

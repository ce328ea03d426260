import type { ConfigMap, OwnerReference, Secret } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import type { CertifiedKey } from "./certificates.ts";
import type { EgressCertificates } from "./egress-certificates.ts";
import { egressNames } from "./egress-names.ts";
import { type EgressRules, valueFile, valueVariable } from "./egress-rules.ts";
import { renderProxyConfig } from "./render-proxy-config.ts";

/** Stands in the folder of leaves, so that it is there in pods that were made before the workload had credentials. */
export const EMPTY_FILE = "empty";

/** When a workload's objects were last found right, and until when nothing needs to be looked at. */
export interface EnsuredEgress {
  readonly generation: number;
  readonly untilMs: number;
  readonly versions: EgressVersions;
}

/** The resourceVersion of each object as it was found right; undefined for those that the workload has no need of. */
export interface EgressVersions {
  readonly settings: string | undefined;
  readonly leaves: string | undefined;
  readonly authority: string | undefined;
  /** Of each Secret that a credential names. */
  readonly named: ReadonlyMap<string, string | undefined>;
}

export interface EgressObjectsOptions {
  readonly workload: string;
  readonly namespace: string;
  /** The workload, with which they go. */
  readonly owner: OwnerReference;
  readonly rules: EgressRules;
  /** Undefined where there are no credentials. */
  readonly certificates?: EgressCertificates | undefined;
  /**
   * Secrets that exist and may be used: values of others are left out, and the proxy answers 503 for them. @default all
   */
  readonly usableSecrets?: ReadonlySet<string> | undefined;
  /** Private ranges that names may resolve to. @default none */
  readonly openedRanges?: readonly string[] | undefined;
  /** PEM of authorities that both the proxy and the workload trust beside the public ones. @default none */
  readonly extraAuthorities?: string | undefined;
}

/** What the pods of a workload with a proxy mount, and the Secret that none does. */
export interface EgressObjects {
  readonly settings: ConfigMap;
  readonly leaves: Secret | undefined;
  readonly authority: Secret | undefined;
}

/** Renders the objects that a workload's proxy lives by; no value of a credential is in any of them. */
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
  // Pods mount what a reference names, also what takes its place later; their proxies take from there what is listed.
  const usable = references.filter(({ name }) => usableSecrets?.has(name) ?? true);
  const values = usable.map((reference) => `${valueVariable(reference)} ${valueFile(reference)}\n`);
  return {
    settings: {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: metadata(names.settings),
      data: {
        "haproxy.cfg": renderProxyConfig({ rules, openedRanges }),
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

/** Reads back what {@link egressObjects} put into Secrets; undefined for what is not there. */
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

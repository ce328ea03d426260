import { createHash, createPrivateKey, X509Certificate } from "node:crypto";
import {
  authorityDays,
  type CertifiedKey,
  DAY_MS,
  issueAuthority,
  issueLeaf,
  leafDays,
  nameConstraints,
} from "./certificates.ts";
import type { DomainPattern } from "./domain-pattern.ts";

/** All certificates of one workload's proxy. */
export interface EgressCertificates {
  readonly authority: CertifiedKey;
  /** By {@link leafFile} of the domain. */
  readonly leaves: ReadonlyMap<string, CertifiedKey>;
  /** When the first one is due for renewal. */
  readonly renewAt: Date;
  /** When the first one ends. */
  readonly endsAt: Date;
  /** Whether a certificate or key is new, so that the Secrets must be written. */
  readonly isChanged: boolean;
}

export interface EgressCertificatesOptions {
  readonly workload: string;
  /** The domains of the credentials; at least one. */
  readonly domains: readonly DomainPattern[];
  readonly now: Date;
  /** The contents of the Secrets. Certificates that are damaged, foreign or due are replaced, the others are kept. */
  readonly present?:
    | { readonly authority?: CertifiedKey | undefined; readonly leaves: ReadonlyMap<string, CertifiedKey> }
    | undefined;
}

/**
 * Issues and renews the certificates of a workload's proxy: an authority that is constrained to the domains, valid for
 * five years and renewed after four, and a leaf for each domain, valid for thirty days and renewed after twenty.
 */
export async function egressCertificates(options: EgressCertificatesOptions): Promise<EgressCertificates> {
  const { workload, domains, now, present } = options;
  const old = present?.authority;
  const isSound = old !== undefined && isPair(old);
  const isKept =
    isSound && renewalOf(old.certificate, authorityDays) > now && isConstrainedTo(old.certificate, domains);
  const authority = isKept ? old : await issueAuthority({ workload, domains, now, key: keptKey(options, isSound) });
  const issuer = new X509Certificate(authority.certificate);

  let isChanged = !isKept;
  const leaves = new Map<string, CertifiedKey>();
  for (const domain of domains) {
    const file = leafFile(domain);
    const held = present?.leaves.get(file);
    if (held !== undefined && isPair(held) && isLeafFor(held.certificate, { domain, issuer, now })) {
      leaves.set(file, held);
    } else {
      leaves.set(file, await issueLeaf(authority, { domain, now }));
      isChanged = true;
    }
  }
  isChanged ||= (present?.leaves.size ?? 0) !== leaves.size;
  const pems = [...leaves.values()].map(({ certificate }) => certificate);
  const renewals = [renewalOf(authority.certificate, authorityDays), ...pems.map((pem) => renewalOf(pem, leafDays))];
  const ends = [authority.certificate, ...pems].map(endOf);
  const first = (times: Date[]) => new Date(Math.min(...times.map((time) => time.getTime())));
  return { authority, leaves, isChanged, renewAt: first(renewals), endsAt: first(ends) };
}

/** The name of a leaf's file, and of its key in the Secret. */
export function leafFile(domain: DomainPattern): string {
  return `${createHash("sha256").update(domain.text).digest("hex").slice(0, 24)}.pem`;
}

/**
 * The key to keep for a new authority. If only the domains change, the key stays, so that programs which read the old
 * certificate accept the leaves of the remaining domains. An authority that is due gets a new key.
 */
function keptKey({ present, now }: EgressCertificatesOptions, isSound: boolean): string | undefined {
  const old = present?.authority;
  if (!isSound || old === undefined || renewalOf(old.certificate, authorityDays) <= now) return undefined;
  return old.key;
}

function isPair({ certificate, key }: CertifiedKey): boolean {
  try {
    return new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key));
  } catch (error) {
    if (error instanceof Error) return false;
    throw error;
  }
}

function isConstrainedTo(certificate: string, domains: readonly DomainPattern[]): boolean {
  const wanted = Buffer.from(nameConstraints(domains.map(({ name }) => name)));
  return new X509Certificate(certificate).raw.includes(wanted);
}

function isLeafFor(
  pem: string,
  { domain, issuer, now }: { domain: DomainPattern; issuer: X509Certificate; now: Date },
): boolean {
  const certificate = new X509Certificate(pem);
  return (
    certificate.subjectAltName === `DNS:${domain.text}` &&
    certificate.verify(issuer.publicKey) &&
    certificate.issuer === issuer.subject &&
    renewalOf(pem, leafDays) > now
  );
}

function renewalOf(pem: string, { valid, renewed }: { valid: number; renewed: number }): Date {
  return new Date(endOf(pem).getTime() - (valid - renewed) * DAY_MS);
}

function endOf(pem: string): Date {
  return new Date(new X509Certificate(pem).validTo);
}

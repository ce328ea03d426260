import { generateKeyPairSync, randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Authority, type IssuedCertificate, openAuthority } from "./authority.ts";
import { writeKubeconfig } from "./write-kubeconfig.ts";

export interface ClusterKeysOptions {
  folder: string;
  name: string;
  /** Address of the API server, such as `https://127.0.0.1:23456`. */
  server: string;
  /** DNS names and IPv4 addresses that the API server is reached by, besides loopback. */
  alternativeNames?: readonly string[];
}

export interface ClusterKeys {
  readonly authority: Authority;
  /** Of a user in the group `system:masters`. */
  readonly admin: IssuedCertificate;
  readonly server: IssuedCertificate;
  readonly serviceAccounts: ServiceAccountKeys;
  /** Of the file of bearer tokens that the API server knows. */
  readonly tokensPath: string;
  /** Has a token of the same user as `admin`. */
  readonly kubeconfigPath: string;
}

/** Returns the keys of a cluster and the administrator's kubeconfig, made now unless they are there. */
export async function clusterKeys(options: ClusterKeysOptions): Promise<ClusterKeys> {
  const pki = join(options.folder, "pki");
  const authority = await openAuthority(pki);
  const admin = await authority.issue({
    fileName: "admin",
    commonName: "admin",
    organizations: ["system:masters"],
    purpose: "client",
  });
  const server = await authority.issue({
    fileName: "kube-apiserver",
    commonName: "kube-apiserver",
    alternativeNames: ["localhost", "kubernetes.default.svc", "127.0.0.1", ...(options.alternativeNames ?? [])],
    purpose: "server",
  });
  const { token, tokensPath } = adminToken(pki);
  const kubeconfigPath = writeKubeconfig({
    path: join(options.folder, "kubeconfig"),
    name: options.name,
    server: options.server,
    authority: authority.certificate,
    credential: { token },
  });
  return { authority, admin, server, serviceAccounts: serviceAccountKeys(pki), tokensPath, kubeconfigPath };
}

/**
 * Returns the administrator's token, made now unless it is there. The API server verifies the chain of a client
 * certificate at every request, and looks a token up.
 *
 * Follows https://kubernetes.io/docs/reference/access-authn-authz/authentication/#static-token-file
 */
function adminToken(folder: string): { token: string; tokensPath: string } {
  const tokensPath = join(folder, "tokens.csv");
  if (!existsSync(tokensPath)) {
    const made = randomBytes(32).toString("base64url");
    writeFileSync(tokensPath, `${made},admin,admin,system:masters\n`, { mode: 0o600 });
  }
  const [token = ""] = readFileSync(tokensPath, "utf8").split(",");
  return { token, tokensPath };
}

export interface ServiceAccountKeys {
  readonly privateKeyPath: string;
  readonly publicKeyPath: string;
}

/** Returns the key pair that signs and checks service account tokens, made now unless it is there. */
function serviceAccountKeys(folder: string): ServiceAccountKeys {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const privateKeyPath = join(folder, "service-account.key");
  const publicKeyPath = join(folder, "service-account.pub");
  if (!existsSync(publicKeyPath)) {
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
    writeFileSync(privateKeyPath, pair.privateKey.export({ type: "pkcs8", format: "pem" }), { mode: 0o600 });
    writeFileSync(publicKeyPath, pair.publicKey.export({ type: "spki", format: "pem" }));
  }
  return { privateKeyPath, publicKeyPath };
}

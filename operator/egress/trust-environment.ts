import type { EnvVar } from "../../crds/kubernetes.ts";

/** Which programs read which: OpenSSL, Go, Ruby and Rust's native roots; Node; requests and pip; curl; git; the AWS SDKs; Deno. */
const VARIABLES = [
  "SSL_CERT_FILE",
  "NODE_EXTRA_CA_CERTS",
  "REQUESTS_CA_BUNDLE",
  "CURL_CA_BUNDLE",
  "GIT_SSL_CAINFO",
  "AWS_CA_BUNDLE",
  "DENO_CERT",
] as const;

/** The variables by which programs find a bundle of trusted authorities. */
export function trustEnvironment(bundle: string): EnvVar[] {
  return VARIABLES.map((name) => ({ name, value: bundle }));
}

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLogReader } from "../../../scripts/bench/audit-log.ts";

/** A request as the API server saw it, https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/ */
export interface AuditedRequest {
  readonly user: { readonly username: string };
  readonly verb: string;
  readonly requestURI: string;
  readonly objectRef?: {
    readonly apiGroup?: string;
    readonly namespace?: string;
    readonly resource: string;
    readonly subresource?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code?: number; readonly message?: string };
}

export interface AuditLog {
  /** For the API server's command line. */
  readonly flags: string[];
  /** Every request that was seen so far, each watch twice: as it began and as it ended. */
  requests(): readonly AuditedRequest[];
  remove(): void;
}

/** Has an API server write down what the service accounts of a namespace ask of it. */
export function createAuditLog(namespace: string): AuditLog {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-audit-"));
  const policy = join(folder, "policy.yaml");
  const log = join(folder, "audit.log");
  writeFileSync(
    policy,
    `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts:${namespace}"]
  - level: None
`,
  );
  const reader = createLogReader(log);
  const seen: AuditedRequest[] = [];
  return {
    flags: [`--audit-policy-file=${policy}`, `--audit-log-path=${log}`],
    requests() {
      for (const line of reader.next().split("\n")) if (line !== "") seen.push(JSON.parse(line) as AuditedRequest);
      return seen;
    },
    remove: () => rmSync(folder, { recursive: true }),
  };
}

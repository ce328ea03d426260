/** The slice of an audit event that is counted, https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/ */
export interface AuditEvent {
  readonly stage: string;
  readonly verb: string;
  readonly userAgent?: string;
  readonly objectRef?: {
    readonly resource: string;
    readonly subresource?: string;
    readonly name?: string;
  };
}

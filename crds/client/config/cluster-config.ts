/**
 * A credential plugin of the kubeconfig,
 * https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
 */
export interface ExecPlugin {
  readonly apiVersion: string;
  readonly command: string;
  readonly args?: readonly string[] | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly installHint?: string | undefined;
  readonly provideClusterInfo?: boolean | undefined;
}

/**
 * How to reach one API server and as whom. `…Data` is PEM text; a `…File` is an absolute path, wins over its `…Data`,
 * and is read again when it changes.
 */
export interface ClusterConfig {
  /** The API server's address, `https://host:port` or `http://host:port`, with a path where a proxy wants one. */
  readonly server: string;
  readonly caData?: string | undefined;
  readonly caFile?: string | undefined;
  readonly insecureSkipTlsVerify?: boolean | undefined;
  readonly tlsServerName?: string | undefined;
  readonly clientCertificateData?: string | undefined;
  readonly clientCertificateFile?: string | undefined;
  readonly clientKeyData?: string | undefined;
  readonly clientKeyFile?: string | undefined;
  readonly token?: string | undefined;
  readonly tokenFile?: string | undefined;
  readonly exec?: ExecPlugin | undefined;
  /** The namespace of the context, or of the service account. */
  readonly namespace?: string | undefined;
}

/** What a request sends as its identity, and how it verifies the server. A changed credential is a new object. */
export interface Credential {
  /** The value of the `authorization` header. */
  readonly authorization?: string | undefined;
  /** PEM text. */
  readonly ca?: string | undefined;
  readonly certificate?: string | undefined;
  readonly key?: string | undefined;
}

export interface CredentialSource {
  /**
   * The current credential. It is read again when it is old.
   *
   * @throws Error if no credential was ever available
   */
  current(): Credential | Promise<Credential>;
  /** Marks the credential as stale, because the server refused it or could not be verified. */
  invalidate(): void;
}

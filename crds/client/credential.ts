/** What a request shows the server, and what it checks the server against. A changed credential is a new object. */
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
   * The credential to use now; it is read again when it is old.
   *
   * @throws Error when there has never been one
   */
  current(): Credential | Promise<Credential>;
  /** Forgets that the credential is fresh, because the server refused it or could not be trusted. */
  invalidate(): void;
}

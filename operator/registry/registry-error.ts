/**
 * Why an image's configuration could not be read: the registry gave no answer, asks for a login, has no such image, or
 * sent what cannot be used.
 */
export type RegistryProblem = "RegistryUnreachable" | "RegistryUnauthorized" | "ImageNotFound" | "ImageUnreadable";

/** A failed read of an image's configuration. */
export class RegistryError extends Error {
  override readonly name = "RegistryError";
  /** For `describeError`: it was foreseen, so the log needs no stack. */
  readonly expected = true;
  readonly reason: RegistryProblem;

  constructor(reason: RegistryProblem, message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.reason = reason;
  }
}

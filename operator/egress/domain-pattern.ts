/** A checked domain of an allowlist or a credential. */
export interface DomainPattern {
  /** As written, in lower case: letters, digits, `-`, `_` and `.`, perhaps after `*.`. */
  readonly text: string;
  /** Without the `*.`. */
  readonly name: string;
  /** Whether it matches all subdomains of `name`, but not `name` itself. */
  readonly isWildcard: boolean;
}

const LABEL = /^[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?$/;
const ADDRESS = /^[0-9.]+$/;

/**
 * Reads a domain name, or `*.` and a domain name.
 *
 * @throws TypeError for any other text
 */
export function parseDomainPattern(domain: string): DomainPattern {
  const text = domain.toLowerCase();
  const isWildcard = text.startsWith("*.");
  const name = isWildcard ? text.slice(2) : text;
  const labels = name.split(".");
  if (
    name.length > 253 ||
    ADDRESS.test(name) ||
    !labels.every((label) => label.length <= 63 && LABEL.test(label)) ||
    // The lower case of a letter outside ASCII can be inside ASCII.
    text.length !== domain.length ||
    !/^[\x21-\x7e]+$/.test(domain)
  ) {
    throw new TypeError(
      `Cannot use ${JSON.stringify(domain)} as a domain: it is not a name such as example.com or *.example.com`,
    );
  }
  return { text, name, isWildcard };
}

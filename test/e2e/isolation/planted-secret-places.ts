/** Where a secret could have come to, and what was found there. */
export interface Place {
  readonly name: string;
  readonly text: string;
  readonly control: string | RegExp;
}

/** Places that were looked at, and the proof that each was looked at indeed. */
export interface Places {
  /**
   * Keeps what a place holds.
   *
   * @param control harmless text that must be there, since nothing can be found in what was not collected
   * @throws Error when the control is not there
   */
  add(name: string, text: string, control: string | RegExp): void;
  /** `<place>: <secret>` for each secret that is where it must not be. */
  hits(secrets: Readonly<Record<string, string>>): string[];
  has(name: string): boolean;
  /** Names of the places whose control is that text. */
  controlledBy(control: string): string[];
  readonly size: number;
}

export function createPlaces(): Places {
  const places: Place[] = [];
  return {
    add(name, text, control) {
      if (typeof control === "string" ? !text.includes(control) : !control.test(text)) {
        throw new Error(`Cannot tell whether ${name} is clean: it lacks ${control}\n${text.slice(0, 2000)}`);
      }
      places.push({ name, text, control });
    },
    hits: (secrets) => places.flatMap((place) => secretsIn(place.text, secrets).map((one) => `${place.name}: ${one}`)),
    controlledBy: (control) => places.filter((place) => place.control === control).map(({ name }) => name),
    has: (name) => places.some((place) => place.name === name),
    get size() {
      return places.length;
    },
  };
}

/** Names of the secrets that a text holds in any writing, each with what comes before it there. */
export function secretsIn(text: string, secrets: Readonly<Record<string, string>>): string[] {
  return Object.entries(secrets).flatMap(([name, value]) => {
    const at = writingsOf(value).map((writing) => text.indexOf(writing));
    const first = Math.max(...at);
    return first < 0 ? [] : [`${name}, after ${JSON.stringify(text.slice(Math.max(0, first - 80), first))}`];
  });
}

/**
 * Every way in which a text is likely to be written somewhere: as it is, in base64 at any place of a longer text, in
 * hex, URL-encoded.
 */
export function writingsOf(text: string): string[] {
  const bytes = Buffer.from(text);
  const hex = bytes.toString("hex");
  const percent = hex.replaceAll(/../g, "%$&");
  const encoded = [0, 1, 2].map((offset) => alignedBase64(bytes, offset));
  return [
    ...new Set([
      ...[text, encodeURIComponent(text), JSON.stringify(text).slice(1, -1)],
      ...encoded,
      ...encoded.map((one) => one.replaceAll("+", "-").replaceAll("/", "_")),
      ...[hex, hex.toUpperCase(), percent, percent.toUpperCase()],
    ]),
  ];
}

/**
 * What base64 makes of the bytes where `offset` bytes come before them, without the characters that its neighbours have
 * a part in.
 */
function alignedBase64(bytes: Buffer, offset: number): string {
  const whole = Buffer.concat([Buffer.alloc(offset), bytes]);
  const text = whole.toString("base64").replaceAll("=", "");
  return text.slice([0, 2, 3][offset], whole.length % 3 === 0 ? undefined : -1);
}

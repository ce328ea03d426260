import { writingsOf } from "./planted-secret-writings.ts";

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

import { createHash } from "node:crypto";

// Kubernetes' own choice for generated names: no vowels, so no words, and nothing that reads like something else.
const ALPHABET = "bcdfghjklmnpqrstvwxz2456789";
const LENGTH = 6;

/**
 * Six characters that follow from the seeds, for a name that must come out the same after a restart.
 *
 * @param seeds such as a claim's uid and the count of its pods
 */
export function nameSuffix(...seeds: readonly (string | number)[]): string {
  const digest = createHash("sha256").update(JSON.stringify(seeds)).digest();
  let suffix = "";
  for (let index = 0; index < LENGTH; index++) suffix += ALPHABET[digest.readUInt16BE(index * 2) % ALPHABET.length];
  return suffix;
}

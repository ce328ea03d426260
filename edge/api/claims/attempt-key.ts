import type { Claim } from "../../../crds/claim.ts";
import { annotation } from "../../../crds/labels.ts";

/** Names the attempt that a claim's annotations ask for; another object or another attempt has another key. */
export function attemptKey({ metadata }: Claim): string {
  return `${metadata.uid ?? ""}/${metadata.annotations?.[annotation.attempt] ?? ""}`;
}

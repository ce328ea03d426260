const DOMAIN_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?";
const HOST = `(?:${DOMAIN_LABEL}(?:\\.${DOMAIN_LABEL})*|\\[[a-fA-F0-9:]+\\])(?::[0-9]+)?`;
const PATH_PART = "[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*";
const TAG = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}";
const DIGEST = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";

/** {@link isImageReference} as a regular expression. */
export const imageReferencePattern = `^(?:${HOST}/)?${PATH_PART}(?:/${PATH_PART})*(?::${TAG})?(?:@${DIGEST})?$`;
const REFERENCE = new RegExp(imageReferencePattern);

/** Whether the text is an image reference, `[host[:port]/]path[:tag][@digest]` (distribution/reference grammar). */
export function isImageReference(text: string): boolean {
  return text.length <= 512 && REFERENCE.test(text);
}

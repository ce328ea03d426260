declare module "*.css" {
  /** With `{ type: "text" }`. */
  const text: string;
  export default text;
}

declare module "*.yaml" {
  /** The document, or a list of several. */
  const read: unknown;
  export default read;
}

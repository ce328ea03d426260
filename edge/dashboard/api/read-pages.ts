/** A page of a list, as the API answers it. */
export interface ListPage<Row> {
  readonly rows: readonly Row[];
  /** Of all that is in it; undefined where the API does not say. */
  readonly version: string | undefined;
  /** Where the next page goes on; undefined after the last one. */
  readonly next: string | undefined;
}

/** Reads a list page by page; it is as new as the oldest of them, since another replica may answer each. */
export async function readPages<Row>(
  read: (after: string | undefined) => Promise<ListPage<Row>>,
): Promise<{ list: Row[]; version: string | undefined }> {
  const list: Row[] = [];
  let page = await read(undefined);
  let { version } = page;
  list.push(...page.rows);
  while (page.next !== undefined) {
    page = await read(page.next);
    list.push(...page.rows);
    if (isBefore(page.version, version)) version = page.version;
  }
  return { list, version };
}

/** Resource versions are decimal numbers of any length (KEP-5504); one that is not known is before none. */
export function isBefore(version: string | undefined, wanted: string | undefined): boolean {
  if (version === undefined || wanted === undefined) return false;
  return version.length === wanted.length ? version < wanted : version.length < wanted.length;
}

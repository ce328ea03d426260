/** A page of a list, as the API returns it. */
export interface ListPage<Row> {
  readonly rows: readonly Row[];
  /** Version of the whole list; undefined if the API does not report one. */
  readonly version: string | undefined;
  /** Cursor of the next page; undefined on the last page. */
  readonly next: string | undefined;
}

/** Reads a list page by page. Its version is the oldest of the pages', since a different replica may answer each. */
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

/** Resource versions are decimal numbers of any length (KEP-5504); an unknown version is older than every known one. */
export function isBefore(version: string | undefined, wanted: string | undefined): boolean {
  if (version === undefined || wanted === undefined) return false;
  return version.length === wanted.length ? version < wanted : version.length < wanted.length;
}

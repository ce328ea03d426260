import type { Dirent } from "node:fs";
import { lstat, opendir } from "node:fs/promises";
import { join } from "node:path";
import { isTenantId } from "../../../../crds/names.ts";
import { tenantOrder } from "../../../../crds/snapshots/store-pages.ts";
import { ifThere } from "./volume-files.ts";

/** To read a folder of a million names takes 1.5 s. */
const WINDOW_NAMES = 40_000;
/** Up to so many names are read again each time, which takes some milliseconds. */
const FEW_NAMES = 4000;
const MOST_WINDOWS = 3;
const FRESH_MS = 60_000;
const READ_AT_ONCE = 1024;

/** The tenants that have a folder on the volume. There may be a million, so their names are never all in memory. */
export interface VolumeTenants {
  /**
   * The next tenants in the order of lists, at most `most`; none at the end. If there are many tenants, a folder that
   * another program created may appear a minute late.
   *
   * @param after the last tenant of the previous call. @default from the beginning
   */
  behind(after: string | undefined, most: number): Promise<string[]>;
  /** Call this when a tenant got a folder. */
  note(tenantId: string): void;
  /** Whether a tenant has a folder. On a volume that ignores case, another tenant's folder does not count. */
  has(tenantId: string): Promise<boolean>;
  /** All entries of the volume's folder, in no order. */
  entries(): AsyncIterable<Dirent>;
}

/** Consecutive names in the order of lists. */
interface Window {
  /** All names of the window come after this one. */
  readonly from: string;
  /** The last name of the window; undefined if it reaches to the end. */
  readonly to: string | undefined;
  readonly names: string[];
  readonly readAt: number;
}

/** A window that is being read, and the names that were noted since that began. */
interface Reading {
  readonly from: string;
  readonly added: string[];
  readonly window: Promise<Window>;
}

/**
 * A folder returns its names in no order. So each read takes the next `windowNames` names after a name, which serve
 * many pages, and the following ones are read ahead.
 */
export function createVolumeTenants(options: {
  root: string;
  /** A monotonic clock in milliseconds. @default performance.now */
  nowMs?: (() => number) | undefined;
  /** The number of names in a window. @default 40000 */
  windowNames?: number | undefined;
}): VolumeTenants {
  const { root, nowMs = () => performance.now(), windowNames = WINDOW_NAMES } = options;
  /** The last used window comes first. */
  let windows: Window[] = [];
  const readings = new Set<Reading>();

  async function* entries(): AsyncGenerator<Dirent> {
    yield* await opendir(root, { bufferSize: READ_AT_ONCE });
  }

  async function read(from: string, added: readonly string[]): Promise<Window> {
    const readAt = nowMs();
    let names: string[] = [];
    let to: string | undefined;
    const isInside = (name: string): boolean => name > from && (to === undefined || name < to);
    const cut = (): void => {
      names = [...new Set(names)].sort();
      if (names.length <= windowNames) return;
      names.length = windowNames;
      to = names.at(-1);
    };
    for await (const { name } of entries()) {
      if (!isTenantId(name)) continue;
      const one = tenantOrder(name);
      if (isInside(one)) names.push(one);
      if (names.length >= 2 * windowNames) cut();
    }
    names.push(...added.filter(isInside));
    cut();
    return { from, to, names, readAt };
  }

  function begin(from: string): Promise<Window> {
    const added: string[] = [];
    const reading: Reading = { from, added, window: readAndUse() };
    readings.add(reading);
    return reading.window;

    async function readAndUse(): Promise<Window> {
      try {
        const window = await read(from, added);
        use(window);
        return window;
      } finally {
        readings.delete(reading);
      }
    }
  }

  function readShared(from: string): Promise<Window> {
    return [...readings].find((one) => one.from === from)?.window ?? begin(from);
  }

  function readAhead(from: string): void {
    if (windows.some((one) => covers(one, from) && !isOld(one))) return;
    // If this fails, the page that needs the window fails too.
    readShared(from).catch(() => undefined);
  }

  function use(window: Window): void {
    windows = [window, ...windows.filter((one) => one !== window && one.from !== window.from)].slice(0, MOST_WINDOWS);
  }

  const isOld = ({ readAt }: Window): boolean => nowMs() - readAt > FRESH_MS;

  async function windowAt(from: string): Promise<Window> {
    const window = windows.find((one) => covers(one, from));
    const isAll = window?.from === "" && window.to === undefined;
    if (window === undefined) return await readShared(from);
    if (isAll && window.names.length <= FEW_NAMES) return await begin("");
    use(window);
    if (isOld(window)) readAhead(window.from);
    return window;
  }

  return {
    entries,

    async behind(after, most) {
      let from = after === undefined ? "" : tenantOrder(after);
      for (;;) {
        const { names, to } = await windowAt(from);
        const first = firstBehind(names, from);
        const found = names.slice(first, first + most);
        // A client that has read a quarter will probably continue. Reading the next window takes as long as dozens of
        // pages.
        if (to !== undefined && first > windowNames / 4) readAhead(to);
        if (found.length > 0 || to === undefined) return found.map((name) => name.slice(0, -1));
        from = to;
      }
    },

    note(tenantId) {
      const name = tenantOrder(tenantId);
      for (const { added } of readings) added.push(name);
      for (const { from, to, names } of windows) {
        if (name <= from || (to !== undefined && name > to)) continue;
        const at = firstBehind(names, name);
        if (names[at - 1] !== name) names.splice(at, 0, name);
      }
      windows = windows.filter(({ names }) => names.length < 2 * windowNames);
    },

    async has(tenantId) {
      const found = await ifThere(lstat(join(root, tenantId)));
      if (found === undefined) return false;
      const otherCase = await ifThere(lstat(join(root, inOtherCase(tenantId))));
      if (otherCase === undefined || otherCase.ino !== found.ino || inOtherCase(tenantId) === tenantId) return true;
      for await (const { name } of entries()) if (name === tenantId) return true;
      return false;
    },
  };
}

function covers({ from, to }: Window, name: string): boolean {
  return from <= name && (to === undefined || name < to);
}

/** The index of the first greater name. */
function firstBehind(names: readonly string[], name: string): number {
  let [from, to] = [0, names.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((names[middle] ?? "") <= name) from = middle + 1;
    else to = middle;
  }
  return from;
}

function inOtherCase(name: string): string {
  return name.replace(/[a-z]/gi, (letter) => (letter < "a" ? letter.toLowerCase() : letter.toUpperCase()));
}

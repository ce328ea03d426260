/** What the browser keeps of a person's choices; undefined where there is none, or no storage is allowed. */
export function readStored(name: string): string | undefined {
  try {
    return localStorage.getItem(name) ?? undefined;
  } catch (error) {
    console.debug("no storage", error);
    return undefined;
  }
}

/** Keeps a choice, or forgets it; without storage it lasts until the page is left. */
export function store(name: string, value: string | undefined): void {
  try {
    if (value === undefined) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch (error) {
    console.debug("no storage", error);
  }
}

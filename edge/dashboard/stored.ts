/** A stored choice; undefined if there is none, or storage is not allowed. */
export function readStored(name: string): string | undefined {
  try {
    return localStorage.getItem(name) ?? undefined;
  } catch (error) {
    console.debug("no storage", error);
    return undefined;
  }
}

/** Stores a choice, or removes it; without storage it lasts until the page is left. */
export function store(name: string, value: string | undefined): void {
  try {
    if (value === undefined) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch (error) {
    console.debug("no storage", error);
  }
}

import { signal } from "@preact/signals";
import { createLeaveGuard } from "./leave-guard.ts";

/** The parts that a page's path names. */
export type PageParams = Readonly<Record<string, string>>;

/** The page's address. */
export const place = signal(new URL(location.href));

/** Protects typed input; the browser's own Back button does not ask. */
export const leaveGuard = createLeaveGuard();

/** What the browser's history stores for a page beside its address. */
interface Kept {
  /** Number of dashboard pages before it in the history. */
  readonly depth?: number;
  /** Scroll position and active row of a table. */
  readonly top?: number;
  readonly active?: string | undefined;
}

export function kept(): Kept {
  return (history.state as Kept | null) ?? {};
}

let toKeep = (): Kept => ({});

/** Registers `state`, which is stored when the page is left; returns a function that removes it. */
export function keepAs(state: () => Kept): () => void {
  toKeep = state;
  return () => {
    if (toKeep === state) toKeep = () => ({});
  };
}

/** Stores the page's state now, before a Back leaves it. Browsers limit how often this may be done. */
export function keepNow(): void {
  history.replaceState({ ...kept(), ...toKeep() }, "");
}

/** Opens another page of the dashboard, or replaces the current history entry. */
export function navigate(path: string, { replace = false }: { replace?: boolean } = {}): void {
  const next = new URL(path, location.href);
  if (next.href === place.value.href) return;
  leaveGuard.leave(() => {
    if (replace) {
      history.replaceState(history.state, "", next);
    } else {
      keepNow();
      history.pushState({ depth: (kept().depth ?? 0) + 1 } satisfies Kept, "", next);
    }
    place.value = next;
  }, next);
}

/** The page's address with other values; empty ones are left out. */
export function hrefWith(change: Readonly<Record<string, string>>): string {
  const next = new URL(place.value);
  for (const [name, value] of Object.entries(change)) {
    if (value === "") next.searchParams.delete(name);
    else next.searchParams.set(name, value);
  }
  return next.pathname + next.search;
}

/** Shows the page with other values in its address; a change is no entry of the history. */
export function changeQuery(change: Readonly<Record<string, string>>): void {
  navigate(hrefWith(change), { replace: true });
}

/** Goes back, unless the previous page is not part of the dashboard. */
export function goBack(): void {
  if ((kept().depth ?? 0) > 0) leaveGuard.leave(() => history.back());
}

addEventListener("popstate", () => {
  place.value = new URL(location.href);
});

/** Plain clicks on links to dashboard pages do not reload the document. */
addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (link === null || link.target !== "" || link.hasAttribute("download")) return;
  const { origin, pathname, hash } = new URL(link.href, location.href);
  if (origin !== location.origin || hash !== "") return;
  if (pathname !== "/" && !pathname.startsWith("/dashboard/")) return;
  event.preventDefault();
  navigate(link.href);
});

import { signal } from "@preact/signals";

/** The page's address. */
export const place = signal(new URL(location.href));

/** What the browser's history keeps of a page beside its address. */
interface Kept {
  /** How many pages of the dashboard come before it. */
  readonly depth?: number;
  /** Where a table was scrolled to, and its active row. */
  readonly top?: number;
  readonly active?: string;
}

export function kept(): Kept {
  return (history.state as Kept | null) ?? {};
}

export function keep(what: Kept): void {
  history.replaceState({ ...kept(), ...what }, "");
}

/** Goes to another page of the dashboard, or replaces the present one in the browser's history. */
export function navigate(path: string, { replace = false }: { replace?: boolean } = {}): void {
  const next = new URL(path, location.href);
  if (next.href === place.value.href) return;
  if (replace) history.replaceState(history.state, "", next);
  else history.pushState({ depth: (kept().depth ?? 0) + 1 } satisfies Kept, "", next);
  place.value = next;
}

/** Goes to the page before, unless that is not one of the dashboard. */
export function goBack(): void {
  if ((kept().depth ?? 0) > 0) history.back();
}

addEventListener("popstate", () => {
  place.value = new URL(location.href);
});

/** Plain clicks on links to pages of the dashboard load nothing anew. */
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

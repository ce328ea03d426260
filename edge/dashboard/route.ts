import { signal } from "@preact/signals";
import { createLeaveGuard } from "./leave-guard.ts";

/** The parts that a page's path names. */
export type PageParams = Readonly<Record<string, string>>;

/** The page's address. */
export const place = signal(new URL(location.href));

/** Guards what was typed on the page; a browser's own Back button asks nobody. */
export const leaveGuard = createLeaveGuard();

/** What the browser's history keeps of a page beside its address. */
interface Kept {
  /** How many pages of the dashboard come before it. */
  readonly depth?: number;
  /** Where a table was scrolled to, and its active row. */
  readonly top?: number;
  readonly active?: string | undefined;
}

export function kept(): Kept {
  return (history.state as Kept | null) ?? {};
}

let toKeep = (): Kept => ({});

/** Has the page kept as `state` says when it is left; the function it returns ends that. */
export function keepAs(state: () => Kept): () => void {
  toKeep = state;
  return () => {
    if (toKeep === state) toKeep = () => ({});
  };
}

/** Keeps the page as it is now, for when it is left by Back. Browsers refuse to do so many times a second. */
export function keepNow(): void {
  history.replaceState({ ...kept(), ...toKeep() }, "");
}

/** Goes to another page of the dashboard, or replaces the present one in the browser's history. */
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
  });
}

/** Goes to the page before, unless that is not one of the dashboard. */
export function goBack(): void {
  if ((kept().depth ?? 0) > 0) leaveGuard.leave(() => history.back());
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

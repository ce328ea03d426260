import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { access } from "../api/access.ts";
import { session } from "../api/session.ts";
import { isOpen, type Page, pageFor, pages } from "../pages.ts";
import { useKey } from "../parts/keys.ts";
import { navigate, place } from "../route.ts";
import { choose, chosen } from "./choices.tsx";
import { icons } from "./icons.ts";

/** Number of links in the bar of a phone; the others are behind "More". */
const FIRST_ON_PHONE = 4;

/** Below the start page of those who reach only some tenants. */
const TENANTS = "/dashboard/tenants";

/** Where the words beside the icons have room, as style.css has it. */
const wide = matchMedia("(width > 64em)");
const isWide = signal(wide.matches);
wide.addEventListener("change", () => {
  isWide.value = wide.matches;
});

type Linked = NonNullable<Page["navigation"]> & Pick<Page, "path">;

/** The pages in the navigation that the caller can use; none before the login. */
export function linkedPages(): Linked[] {
  if (access.value === undefined) return [];
  // An edge without a key has no others.
  const hasKeys = session.value?.asksForKey === true;
  return pages.flatMap(({ path, navigation, isOfKeys, ...page }) =>
    navigation === undefined || !isOpen(pageFor({ path, ...page })) || (isOfKeys && !hasKeys)
      ? []
      : [{ path, ...navigation }],
  );
}

/** Links to the lists, and the keys that open them. */
export function Navigation({ current }: { current: Page | undefined }) {
  const more = useRef<HTMLDetailsElement>(null);
  const { pathname } = place.value;
  const linked = linkedPages();
  useEffect(() => {
    if (more.current !== null) more.current.open = false;
  }, [pathname]);
  const currentPath = linked.findLast(
    ({ path }) => current?.path === path || current?.path.startsWith(`${path === "/" ? TENANTS : path}/`),
  )?.path;
  const isUnfolded = (chosen.navigation.value ?? (isWide.value ? "open" : "folded")) === "open";
  return (
    <nav aria-label="Pages">
      <b class="brand">
        <Icon of="M8 1.5l6 3.5v6l-6 3.5-6-3.5V5zM8 5.5v5M5.5 5.5h5" /> tenancy
      </b>
      {linked.map((link, at) => (
        <Link key={link.path} {...link} isCurrent={link.path === currentPath} isLate={at >= FIRST_ON_PHONE} />
      ))}
      {linked.length > FIRST_ON_PHONE && (
        <details class="more" ref={more}>
          <summary>More</summary>
          <div>
            {linked.slice(FIRST_ON_PHONE).map(({ path, word }) => (
              <a key={path} href={path} aria-current={path === currentPath ? "page" : undefined}>
                {word}
              </a>
            ))}
          </div>
        </details>
      )}
      <button
        type="button"
        class="fold"
        aria-expanded={isUnfolded}
        aria-label="Words in the navigation"
        title={isUnfolded ? "Fold" : "Unfold"}
        onClick={() => choose("navigation", isUnfolded ? "folded" : "open")}
      >
        <Icon of={isUnfolded ? "M7 4L3 8l4 4M13 4L9 8l4 4" : "M3 4l4 4-4 4M9 4l4 4-4 4"} />
      </button>
    </nav>
  );
}

function Link(props: Linked & { isCurrent: boolean; isLate: boolean }) {
  const { path, word, letter, isFirst = false, isCurrent, isLate } = props;
  useKey(`g ${letter}`, word, () => navigate(path));
  return (
    <a
      href={path}
      class={`${isLate ? "late" : ""} ${isFirst ? "first" : ""}`}
      title={word}
      aria-current={isCurrent ? "page" : undefined}
    >
      <Icon of={icons[word] ?? ""} /> {word}
    </a>
  );
}

function Icon({ of }: { of: string }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={of} />
    </svg>
  );
}

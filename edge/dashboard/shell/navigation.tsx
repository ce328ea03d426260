import { useEffect, useRef } from "preact/hooks";
import { access } from "../api/access.ts";
import { session } from "../api/session.ts";
import { isOpen, type Page, pageFor, pages } from "../pages.ts";
import { useKey } from "../parts/keys.ts";
import { navigate, place } from "../route.ts";

/** Number of links in the bar of a phone; the others are behind "More". */
const FIRST_ON_PHONE = 4;

/** Below the start page of those who reach only some tenants. */
const TENANTS = "/dashboard/tenants";

/** The pages in the navigation that the caller can use; none before the login. */
export function linkedPages(): { path: string; word: string; letter: string }[] {
  if (access.value === undefined) return [];
  // An edge without a key has no others.
  const hasKeys = session.value?.asksForKey === true;
  return pages.flatMap(({ path, navigation, ...page }) =>
    navigation === undefined || !isOpen(pageFor({ path, ...page })) || (page.of === "keys" && !hasKeys)
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
  const links = linked.map((link, at) => (
    <Link key={link.path} {...link} isCurrent={link.path === currentPath} isLate={at >= FIRST_ON_PHONE} />
  ));
  return (
    <nav aria-label="Pages">
      {links}
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
    </nav>
  );
}

function Link(props: { path: string; word: string; letter: string; isCurrent: boolean; isLate: boolean }) {
  const { path, word, letter, isCurrent, isLate } = props;
  useKey(`g ${letter}`, word, () => navigate(path));
  return (
    <a href={path} class={isLate ? "late" : ""} aria-current={isCurrent ? "page" : undefined}>
      {word}
    </a>
  );
}

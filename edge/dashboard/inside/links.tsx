import { useKey } from "../parts/keys.ts";
import { navigate } from "../route.ts";
import { leftShells } from "./left-shells.ts";

const parts = [
  { part: "terminal", word: "Terminal", letter: "t" },
  { part: "files", word: "Files", letter: "f" },
  { part: "processes", word: "Processes", letter: "p" },
] as const;

export type InsidePart = (typeof parts)[number]["part"];

/** The page's address of a part of an instance. */
export function insideHref(instance: string, part: InsidePart, query: Readonly<Record<string, string>> = {}): string {
  const search = new URLSearchParams(query).toString();
  return `/dashboard/instances/${encodeURIComponent(instance)}/${part}${search === "" ? "" : `?${search}`}`;
}

/** Links to what can be done in an instance, and the keys that open them. */
export function InsideLinks({ of, current }: { of: string; current?: InsidePart }) {
  const pid = leftShells.value.get(of);
  return (
    <>
      {parts.map((one) => (
        <InsideLink
          key={one.part}
          href={insideHref(of, one.part, one.part === "terminal" && pid !== undefined ? { pid: String(pid) } : {})}
          {...one}
          isCurrent={one.part === current}
        />
      ))}
    </>
  );
}

function InsideLink(props: { href: string; word: string; letter: string; isCurrent: boolean }) {
  const { href, word, letter, isCurrent } = props;
  useKey(letter, word, () => navigate(href));
  return (
    <a
      {...{ class: "button", href, title: `${word} (${letter})` }}
      aria-keyshortcuts={letter}
      aria-current={isCurrent ? "page" : undefined}
    >
      {word}
    </a>
  );
}

/** The head of a page about a part of an instance. */
export function InsideHead({ of, current }: { of: string; current: InsidePart }) {
  const word = parts.find(({ part }) => part === current)?.word;
  return (
    <>
      <p class="crumbs">
        <a href="/dashboard/instances">Instances</a> /{" "}
        <a href={`/dashboard/instances/${encodeURIComponent(of)}`}>{of}</a>
      </p>
      <h1>
        {word} <small>of {of}</small>
      </h1>
      <div class="acts">
        <InsideLinks of={of} current={current} />
      </div>
    </>
  );
}

import { mayAct } from "../api/access.ts";
import { live } from "../api/kinds.ts";
import type { ClaimKey } from "../claims/claim.ts";
import { useKey } from "../parts/keys.ts";
import { navigate } from "../route.ts";
import { leftShells } from "./left-shells.ts";

const parts = [
  { part: "terminal", word: "Terminal", letter: "t" },
  { part: "files", word: "Files", letter: "f" },
  { part: "processes", word: "Processes", letter: "p" },
] as const;

export type InsidePart = (typeof parts)[number]["part"];
export type SessionTab = InsidePart | "session" | "pod" | "saved";

/** The page's address of a part of an instance. */
export function insideHref(instance: string, part: InsidePart, query: Readonly<Record<string, string>> = {}): string {
  const search = new URLSearchParams(query).toString();
  return `${instanceHref(instance)}/${part}${search === "" ? "" : `?${search}`}`;
}

/**
 * The pages about one claim: itself, its pod, what is inside, and what was saved.
 *
 * @param props.claim undefined until it is known whose instance this is
 * @param props.instance its pod, if it has one
 * @param props.isOpen whether what is inside can be used
 */
export function SessionTabs(props: {
  claim: ClaimKey | undefined;
  instance: string | undefined;
  isOpen: boolean;
  current: SessionTab;
}) {
  const { claim, instance, isOpen, current } = props;
  const path = claim && `${encodeURIComponent(claim.tenantId)}/${encodeURIComponent(claim.workloadRef)}`;
  const pid = instance === undefined ? undefined : leftShells.value.get(instance);
  const isShown = instance !== undefined && isOpen && mayAct();
  return (
    <ul class="tabs" aria-label="Pages of the session">
      {/* It keeps its place until the claim is known, so that nothing moves. */}
      <Tab word="Session" href={path && `/dashboard/claims/${path}`} isCurrent={current === "session"} />
      {isShown &&
        parts.map(({ part, ...given }) => {
          const query = part === "terminal" && pid !== undefined ? { pid: String(pid) } : {};
          const href = insideHref(instance, part, query);
          return <KeyedTab key={part} {...given} href={href} isCurrent={current === part} />;
        })}
      {instance !== undefined && <Tab word="Pod and log" href={instanceHref(instance)} isCurrent={current === "pod"} />}
      <Tab word="Saved versions" href={path && `/dashboard/snapshots/${path}`} isCurrent={current === "saved"} />
    </ul>
  );
}

interface TabProps {
  readonly word: string;
  readonly href: string | undefined;
  readonly isCurrent: boolean;
  readonly letter?: string;
}

function Tab({ word, href, isCurrent, letter }: TabProps) {
  return (
    <li>
      <a
        {...(href !== undefined && { href })}
        title={letter && `${word} (${letter})`}
        aria-keyshortcuts={letter}
        aria-current={isCurrent ? "page" : undefined}
      >
        {word}
      </a>
    </li>
  );
}

function KeyedTab(props: TabProps & { readonly href: string; readonly letter: string }) {
  const { word, href, letter } = props;
  useKey(letter, word, () => navigate(href));
  return <Tab {...props} />;
}

/** The head of a page about an instance, or about a part of it. */
export function InstanceHead({ of, current }: { of: string; current: InsidePart | "pod" }) {
  const instances = live("instances");
  instances.version.value;
  const { tenantId, workloadRef, phase } = instances.rows.get(of) ?? {};
  const claim = tenantId !== undefined && workloadRef !== undefined ? { tenantId, workloadRef } : undefined;
  const word = parts.find(({ part }) => part === current)?.word;
  return (
    <>
      <p class="crumbs">
        <a href="/dashboard/instances">Instances</a>
        {word !== undefined && (
          <>
            {" "}
            / <a href={instanceHref(of)}>{of}</a>
          </>
        )}
      </p>
      <h1>
        {word === undefined ? (
          of
        ) : (
          <>
            {word} <small>of {of}</small>
          </>
        )}
      </h1>
      {(word !== undefined || claim !== undefined) && (
        <SessionTabs {...{ claim, instance: of, current }} isOpen={word !== undefined || phase === "Running"} />
      )}
    </>
  );
}

function instanceHref(instance: string): string {
  return `/dashboard/instances/${encodeURIComponent(instance)}`;
}

import { mayAct } from "../api/access.ts";
import { type Kinds, live } from "../api/kinds.ts";
import { leftShells } from "../inside/left-shells.ts";
import { claimHref, type InsidePart, insideHref, instanceHref, savedHref } from "../parts/hrefs.ts";
import { useKey } from "../parts/keys.ts";
import { navigate } from "../route.ts";
import type { ClaimKey } from "./claim.ts";

const parts: readonly { part: InsidePart; word: string; letter: string }[] = [
  { part: "terminal", word: "Terminal", letter: "t" },
  { part: "files", word: "Files", letter: "f" },
  { part: "processes", word: "Processes", letter: "p" },
];

type SessionTab = InsidePart | "session" | "pod" | "saved";

/**
 * The pages about one claim: itself, its pod, what is inside, and what was saved. A tab that cannot be used keeps its
 * place, so that nothing moves when more is known.
 *
 * @param props.claim undefined until it is known whose instance this is
 * @param props.instance its pod, if it has one
 * @param props.isOpen whether what is inside can be used
 */
function SessionTabs(props: {
  claim: ClaimKey | undefined;
  instance: string | undefined;
  isOpen: boolean;
  current: SessionTab;
}) {
  const { claim, instance, isOpen, current } = props;
  const pid = instance === undefined ? undefined : leftShells.value.get(instance);
  return (
    <ul class="tabs" aria-label="Pages of the session">
      <Tab word="Session" href={claim && claimHref(claim)} isCurrent={current === "session"} />
      {mayAct() &&
        parts.map(({ part, ...given }) => {
          if (instance === undefined || !isOpen) return <Tab key={part} word={given.word} isCurrent={false} />;
          const query = part === "terminal" && pid !== undefined ? { pid: String(pid) } : {};
          const href = insideHref(instance, part, query);
          return <KeyedTab key={part} {...given} href={href} isCurrent={current === part} />;
        })}
      <Tab word="Pod and log" href={instance && instanceHref(instance)} isCurrent={current === "pod"} />
      <Tab word="Saved versions" href={claim && savedHref(claim)} isCurrent={current === "saved"} />
    </ul>
  );
}

/** On the page of a claim, or of what it saved. */
export function ClaimTabs(props: { of: ClaimKey; row: Kinds["claims"] | undefined; current: "session" | "saved" }) {
  const { of, row, current } = props;
  // After its pod is destroyed, the claim keeps its phase and the pod's name, but not the endpoint.
  const isOpen = row?.phase === "Active" && row.endpoint !== undefined;
  return <SessionTabs {...{ claim: of, instance: row?.instanceId, isOpen, current }} />;
}

interface TabProps {
  readonly word: string;
  readonly href?: string | undefined;
  readonly isCurrent: boolean;
  readonly letter?: string;
}

function Tab({ word, href, isCurrent, letter }: TabProps) {
  return (
    <li>
      <a
        {...(href === undefined ? { role: "link", "aria-disabled": "true" } : { href })}
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
  const row = instances.rows.get(of);
  const claim = row === undefined && instances.state.value !== "loading" ? claimOfGone(of) : heldBy(row);
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
      <SessionTabs
        {...{ claim, instance: of, current }}
        isOpen={word !== undefined || (claim !== undefined && row?.phase === "Running")}
      />
    </>
  );
}

/** Whose instance it is; undefined of a warm one. */
function heldBy(row: Partial<ClaimKey> | undefined): ClaimKey | undefined {
  const { tenantId, workloadRef } = row ?? {};
  return tenantId !== undefined && workloadRef !== undefined ? { tenantId, workloadRef } : undefined;
}

/** The claim that still names an instance which no longer exists. */
function claimOfGone(instance: string): ClaimKey | undefined {
  const claims = live("claims");
  claims.version.value;
  return [...claims.rows.values()].find(({ instanceId }) => instanceId === instance);
}

import { useId, useState } from "preact/hooks";
import { seesService } from "../api/access.ts";
import { type Kinds, live } from "../api/kinds.ts";
import { Dialog } from "../parts/dialog.tsx";
import { claimHref, instanceHref } from "../parts/hrefs.ts";
import { bindings } from "../parts/keys.ts";
import { tenantHref } from "../parts/tenant-link.tsx";
import { navigate } from "../route.ts";
import { linkedPages } from "./navigation.tsx";

interface Choice {
  readonly group: string;
  readonly text: string;
  act(): void;
}

/** The objects of a kind that the palette finds, and their pages. */
interface Findable<Row> {
  readonly group: string;
  text(row: Row): string;
  open(row: Row): string;
}

const findable: { readonly [Name in keyof Kinds]?: Findable<Kinds[Name]> } = {
  claims: {
    group: "Claims",
    text: ({ tenantId, workloadRef }) => `${tenantId} on ${workloadRef}`,
    open: claimHref,
  },
  instances: { group: "Instances", text: ({ name }) => name, open: ({ name }) => instanceHref(name) },
  workloads: { group: "Workloads", text: ({ name }) => name, open: ({ name }) => `/dashboard/workloads/${name}` },
  pools: { group: "Pools", text: ({ name }) => name, open: ({ name }) => `/dashboard/pools/${name}` },
  triggers: { group: "Triggers", text: ({ name }) => name, open: ({ name }) => `/dashboard/triggers/${name}` },
};

const ofTenants: readonly (keyof Kinds)[] = ["claims", "instances"];

const MOST_OF_A_KIND = 8;
/** About what a tenant id is; the API decides. */
const TENANT_ID = /^[\w.-]{1,63}$/;

/**
 * Opens a page or an object, or runs a key's act, by a part of its name.
 * https://www.w3.org/WAI/ARIA/apg/patterns/combobox/
 */
export default function Palette({ close }: { close(): void }) {
  const id = useId();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const choices = choicesFor(text.trim());
  const active = Math.min(at, choices.length - 1);

  function choose(choice: Choice | undefined): void {
    if (choice === undefined) return;
    close();
    choice.act();
  }

  return (
    <Dialog title="Go to" class="palette" onCancel={close}>
      <input
        role="combobox"
        autofocus
        autocomplete="off"
        spellcheck={false}
        aria-label="Page, tenant, instance or act"
        aria-expanded={choices.length > 0}
        aria-controls={id}
        aria-activedescendant={active < 0 ? undefined : `${id}-${active}`}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
          if (step !== undefined) {
            event.preventDefault();
            setAt((active + step + choices.length) % Math.max(1, choices.length));
            document.getElementById(`${id}-${active + step}`)?.scrollIntoView({ block: "nearest" });
          } else if (event.key === "Enter") {
            event.preventDefault();
            choose(choices[active]);
          }
        }}
      />
      <div role="listbox" id={id} aria-label="Found">
        {choices.map((choice, index) => (
          <div
            key={`${choice.group} ${choice.text}`}
            role="option"
            id={`${id}-${index}`}
            aria-selected={index === active}
            onClick={() => choose(choice)}
          >
            <span>{choice.text}</span>
            <span class="muted">{choice.group}</span>
          </div>
        ))}
      </div>
      {choices.length === 0 && <p class="muted">No match.</p>}
    </Dialog>
  );
}

function choicesFor(text: string): Choice[] {
  const has = (words: string): boolean => words.toLowerCase().includes(text.toLowerCase());
  const goes = linkedPages()
    .filter(({ word }) => has(word))
    .map(({ path, word }): Choice => ({ group: "Page", text: word, act: () => navigate(path) }));
  const acts = bindings.value
    .filter(({ keys, label }) => !keys.startsWith("g ") && keys !== "Control+k" && has(label))
    .map(({ label, act }): Choice => ({ group: "Act", text: label, act }));
  const kinds = Object.keys(findable) as (keyof Kinds)[];
  const objects = kinds
    .filter((name) => seesService() || ofTenants.includes(name))
    .flatMap((name) => objectsOf(name, has));
  return text === "" ? [...goes, ...acts] : [...goes, ...objects, ...acts, ...tenantsFor(text, has)];
}

/** Tenants with claims, and the one with exactly this id, which may have none. */
function tenantsFor(text: string, has: (words: string) => boolean): Choice[] {
  const ids = new Set<string>();
  for (const { tenantId } of live("claims").rows.values()) {
    if (ids.size < MOST_OF_A_KIND && has(tenantId)) ids.add(tenantId);
  }
  if (TENANT_ID.test(text)) ids.add(text);
  return [...ids].map((id) => ({ group: "Tenants", text: id, act: () => navigate(tenantHref(id)) }));
}

function objectsOf<Name extends keyof Kinds>(name: Name, has: (words: string) => boolean): Choice[] {
  const found = findable[name] as Findable<Kinds[Name]> | undefined;
  if (found === undefined) return [];
  const list = live(name);
  // Subscribe, so that new objects are found too.
  void list.version.value;
  const choices: Choice[] = [];
  for (const row of list.rows.values()) {
    const text = found.text(row);
    if (!has(text)) continue;
    choices.push({ group: found.group, text, act: () => navigate(found.open(row)) });
    if (choices.length === MOST_OF_A_KIND) break;
  }
  return choices;
}

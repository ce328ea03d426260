import type { ComponentChildren } from "preact";
import { mayChange } from "../api/access.ts";
import { call } from "../api/call.ts";
import { type Kinds, live } from "../api/kinds.ts";
import { Act, type Acts, Outcome, useActs } from "../parts/acts.tsx";
import { confirm } from "../parts/confirm.tsx";
import { place } from "../route.ts";
import { capital } from "./capital.ts";
import { EditSpec, isEdited } from "./edit.tsx";
import { Gone } from "./gone.tsx";
import { readTagged } from "./read-tagged.ts";

/** An existing object, with what the parts of its page need. */
export interface Shown<Row> {
  readonly row: Row;
  /** Path of the object, below `/api/v1`. */
  readonly path: string;
  readonly acts: Acts;
}

/** The page of one object with a spec: its edit form, its deletion and its content. */
export function ObjectPage<Kind extends "workloads" | "pools" | "triggers">(props: {
  kind: Kind;
  name: string;
  /** Further effects of a change. */
  also?: ComponentChildren;
  /** What a deletion loses, given the object as read for the question. */
  lost(object: Kinds[Kind]): ComponentChildren;
  /** Content before `Edit`. @default nothing */
  first?(shown: Shown<Kinds[Kind]>): ComponentChildren;
  children(shown: Shown<Kinds[Kind]>): ComponentChildren;
}) {
  const { kind, name, also, lost, first, children } = props;
  const noun = kind.slice(0, -1);
  const title = capital(noun);
  const path = `/${kind}/${encodeURIComponent(name)}`;
  const list = live(kind);
  list.version.value;
  const row = list.rows.get(name);
  const acts = useActs();
  return (
    <>
      <p class="crumbs">
        <a href={`/dashboard/${kind}`}>{title}s</a>
      </p>
      <h1>{name}</h1>
      {row === undefined && <Gone noun={noun} path={`/${kind}`} state={list.state.value} />}
      {isEdited() && mayChange() ? (
        <EditSpec {...{ noun, path, also }} />
      ) : (
        <>
          {row !== undefined && mayChange() && (
            <div class="acts">
              {first?.({ row, path, acts })}
              <a class="button" href={`${place.value.pathname}?edit=1`}>
                Edit
              </a>
              <a class="button" href={`/dashboard/create/${noun}?from=${encodeURIComponent(name)}`}>
                Duplicate
              </a>
              <Act acts={acts} verb="Delete" class="danger" act={remove} />
            </div>
          )}
          <Outcome acts={acts} />
          {row !== undefined && children({ row, path, acts })}
        </>
      )}
    </>
  );

  async function remove(): Promise<string | undefined> {
    const { object, ...precondition } = await readTagged<Kinds[Kind]>(path);
    const isMeant = await confirm({ title: `Delete ${noun} ${name}?`, lost: lost(object), verb: "Delete" });
    if (!isMeant) return undefined;
    const { message } = await call<{ message?: string }>("DELETE", path, precondition);
    return `${title} ${name} is deleted${message === undefined ? "." : `: ${message}`}`;
  }
}

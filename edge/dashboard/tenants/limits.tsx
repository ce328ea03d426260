import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { call } from "../api/call.ts";
import { type Loaded, useLoad } from "../api/load.ts";
import { Reading, Unread } from "../parts/problem.tsx";
import { sizeWords } from "../parts/size-words.ts";

type Limits = ApiTypes["TenantLimits"]["limits"];

const words: Readonly<Record<keyof Limits, string>> = {
  activeClaims: "Claims with an instance",
  vcpus: "vCPUs",
  memoryMb: "Memory",
  snapshotMb: "Saved files",
  startsPerMinute: "Starts a minute",
  requestsPerSecond: "Requests a second",
  bytesPerSecond: "Bytes a second",
  terminals: "Terminals at once",
};

const LEAST_MS = 2000;
/** The share of a limit from which on it is near. */
const NEAR = 0.8;

/** @param version a new value reads again */
export function useLimits(tenantId: string, version: string): Loaded<ApiTypes["TenantLimits"]> {
  const path = `/tenants/${encodeURIComponent(tenantId)}/limits`;
  return useLoad(path, (signal) => call<ApiTypes["TenantLimits"]>("GET", path, { signal }), version, LEAST_MS);
}

/** What a tenant may use, and what it uses. */
export function TenantLimits({ of: { value, error } }: { of: Loaded<ApiTypes["TenantLimits"]> }) {
  const holding = (Object.keys(words) as (keyof Limits)[]).filter((name) => value?.limits[name] !== undefined);
  return (
    <section aria-labelledby="limits">
      <h2 id="limits">Limits {value?.class !== undefined && <small class="muted">class {value.class}</small>}</h2>
      <Unread error={error} />
      {value?.problem !== undefined && <p class="is-warn">Earlier quotas hold: {value.problem}</p>}
      {value !== undefined && holding.length === 0 && <p class="muted">No limits hold for this tenant.</p>}
      <Reading of={{ value, error }} />
      {value !== undefined && holding.length > 0 && (
        <table class="stack" aria-labelledby="limits">
          <tbody>
            {holding.map((name) => (
              <LimitRow key={name} name={name} {...(value.limits[name] ?? { limit: 0 })} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function LimitRow({ name, limit, used }: { name: keyof Limits; limit: number; used?: number }) {
  const shown = (amount: number): string => amountOf(name, amount);
  const state = stateOf(limit, used);
  return (
    <tr>
      <th scope="row">{words[name]}</th>
      <td>
        {used === undefined ? (
          `at most ${shown(limit)}`
        ) : (
          <>
            <meter
              min={0}
              max={Math.max(1, limit)}
              // A value at `high` itself is not marked.
              high={limit * NEAR - 0.01}
              optimum={0}
              value={used}
              aria-label={`${words[name]} used`}
            />{" "}
            {shown(used)} of {shown(limit)}
          </>
        )}
      </td>
      <td>{state !== undefined && <LimitState of={state} />}</td>
    </tr>
  );
}

interface State {
  readonly is: "bad" | "warn";
  readonly word: string;
}

export function LimitState({ of: { is, word } }: { of: State }) {
  return (
    <span class={`is-${is}`}>
      <span aria-hidden="true">{is === "bad" ? "▲" : "◐"}</span> {word}
    </span>
  );
}

/** The limit that is used most, if it is used up or nearly. */
export function worstLimit(limits: Limits): State | undefined {
  let worst: (State & { share: number }) | undefined;
  for (const name of Object.keys(words) as (keyof Limits)[]) {
    const { limit = 0, used = 0 }: { limit?: number; used?: number } = limits[name] ?? {};
    const state = used === 0 ? undefined : stateOf(limit, used);
    if (state !== undefined && used / limit > (worst?.share ?? 0))
      worst = { is: state.is, word: `${words[name]} ${state.word}`, share: used / limit };
  }
  return worst;
}

function stateOf(limit: number, used: number | undefined): State | undefined {
  if (limit === 0) return { is: "bad", word: "nothing allowed" };
  if (used === undefined || used < limit * NEAR) return undefined;
  return used >= limit ? { is: "bad", word: "used up" } : { is: "warn", word: "nearly used up" };
}

function amountOf(name: keyof Limits, amount: number): string {
  if (name === "bytesPerSecond") return sizeWords(amount);
  return `${amount.toLocaleString()}${name.endsWith("Mb") ? " MiB" : ""}`;
}

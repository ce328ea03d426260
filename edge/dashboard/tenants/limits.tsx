import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { call } from "../api/call.ts";
import { useLoad } from "../api/load.ts";
import { Problem } from "../parts/problem.tsx";
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

/**
 * What a tenant may use, and what it uses.
 *
 * @param props.version a new value reads again
 */
export function TenantLimits({ of: tenantId, version }: { of: string; version: string }) {
  const path = `/tenants/${encodeURIComponent(tenantId)}/limits`;
  const read = useLoad(path, (signal) => call<ApiTypes["TenantLimits"]>("GET", path, { signal }), version, LEAST_MS);
  const { value, error } = read;
  const holding = (Object.keys(words) as (keyof Limits)[]).filter((name) => value?.limits[name] !== undefined);
  return (
    <section aria-labelledby="limits">
      <h2 id="limits">Limits {value?.class !== undefined && <small class="muted">class {value.class}</small>}</h2>
      <Problem error={error} />
      {value?.problem !== undefined && <p class="is-warn">Earlier quotas hold: {value.problem}</p>}
      {value !== undefined && holding.length === 0 && <p class="muted">No limits hold for this tenant.</p>}
      {value === undefined && error === undefined && <p class="muted">Reading…</p>}
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
      <td>
        {state !== undefined && (
          <span class={`is-${state.is}`}>
            <span aria-hidden="true">{state.is === "bad" ? "▲" : "◐"}</span> {state.word}
          </span>
        )}
      </td>
    </tr>
  );
}

function stateOf(limit: number, used: number | undefined): { is: "bad" | "warn"; word: string } | undefined {
  if (limit === 0) return { is: "bad", word: "nothing allowed" };
  if (used === undefined || used < limit * NEAR) return undefined;
  return used >= limit ? { is: "bad", word: "used up" } : { is: "warn", word: "nearly used up" };
}

function amountOf(name: keyof Limits, amount: number): string {
  if (name === "bytesPerSecond") return sizeWords(amount);
  return `${amount.toLocaleString()}${name.endsWith("Mb") ? " MiB" : ""}`;
}

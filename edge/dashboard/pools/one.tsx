import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { call } from "../api/call.ts";
import type { Kinds } from "../api/kinds.ts";
import { useLoad } from "../api/load.ts";
import type { Acts } from "../parts/acts.tsx";
import { confirm } from "../parts/confirm.tsx";
import { Facts } from "../parts/facts.tsx";
import { Long } from "../parts/long.tsx";
import { Problem } from "../parts/problem.tsx";
import { State } from "../parts/state.tsx";
import { When } from "../parts/when.tsx";
import type { PageParams } from "../route.ts";
import { ObjectPage } from "../spec/object-page.tsx";
import { readTagged } from "../spec/read-tagged.ts";
import { poolMinutes, poolWords } from "./pool-minutes.ts";
import { limitWords, poolSize } from "./pool-size.ts";

type Pool = Kinds["pools"];
type PoolHistory = ApiTypes["PoolHistory"];

export default function One({ params }: { params: PageParams }) {
  const { name = "" } = params;
  return (
    <ObjectPage
      kind="pools"
      name={name}
      lost={({ status }) => {
        const pods = status.ready + status.warming;
        return (
          <p>Its {pods === 1 ? "warm pod is deleted" : `${pods} warm pods are deleted`} with it. Claimed pods stay.</p>
        );
      }}
      first={({ row, path, acts }) =>
        row.spec.size !== undefined && <Scale key={row.spec.size} size={row.spec.size} path={path} acts={acts} />
      }
    >
      {({ row, path }) => (
        <>
          <Shown pool={row} />
          <Hour path={path} row={row} />
        </>
      )}
    </ObjectPage>
  );
}

function Shown({ pool }: { pool: Pool }) {
  const { spec, status, createdAt } = pool;
  const { phase, ready, warming, scaling, reason, message } = status;
  return (
    <>
      <Facts
        of={[
          ["State", <State key="state" of={{ phase, reason }} />],
          [
            "Workload",
            <a key="workload" href={`/dashboard/workloads/${spec.workloadRef}`}>
              {spec.workloadRef}
            </a>,
          ],
          ["Ready", `${ready} of ${poolSize(pool)}`],
          ["Starting", String(warming)],
          ["Limits", limitWords(pool)],
          ["Refill", scaling?.refillSeconds === undefined ? undefined : `${scaling.refillSeconds} s`],
          ["Created", <When key="created" at={createdAt} />],
        ]}
      />
      {scaling !== undefined && (
        <section aria-labelledby="size">
          <h2 id="size" class={["MaxSize", "QuotaRoom", "ScheduleInvalid"].includes(scaling.reason) ? "is-warn" : ""}>
            Why {status.desired === 1 ? "1 pod" : `${status.desired} pods`}: {scaling.reason}
          </h2>
          <div class="said">
            <Long of={scaling.message} />
          </div>
        </section>
      )}
      {(reason !== undefined || message !== undefined) && (
        <section aria-labelledby="reason">
          <h2 id="reason" class={phase === "Filling" ? "is-warn" : "is-bad"}>
            {reason ?? phase}
          </h2>
          <div class="said">{message !== undefined && <Long of={message} />}</div>
        </section>
      )}
    </>
  );
}

function Scale({ size: before, path, acts }: { size: number; path: string; acts: Acts }) {
  const [size, setSize] = useState(String(before));
  return (
    <form
      class="acts"
      onSubmit={(event) => {
        event.preventDefault();
        acts.run("Scale", () => scale(path, Number(size)));
      }}
    >
      <input
        type="number"
        aria-label="Size"
        min={0}
        max={10_000}
        required
        value={size}
        onInput={(event) => setSize(event.currentTarget.value)}
      />
      <button type="submit" aria-disabled={acts.busy !== undefined}>
        Scale
      </button>
    </form>
  );
}

/** Changes only the size, of the spec as it was read for the question. */
async function scale(path: string, size: number): Promise<string | undefined> {
  const { object, ...precondition } = await readTagged<Pool>(path);
  const { name, spec, status } = object;
  const fewer = Math.max(0, status.ready + status.warming - size);
  // Another person may have let it scale by itself since.
  if (spec.size === undefined) throw new Error("The operator chooses the size of this pool: edit its maxSize.");
  if (size < spec.size) {
    const pods = fewer === 1 ? "1 warm pod is" : `${fewer} warm pods are`;
    const isMeant = await confirm({
      title: `Scale pool ${name} from ${spec.size} to ${size}?`,
      lost: <p>{fewer === 0 ? "No pod is deleted." : `${pods} deleted; no tenant uses them.`} Claimed pods stay.</p>,
      verb: "Scale",
    });
    if (!isMeant) return undefined;
  }
  await call("PUT", path, { body: { spec: { ...spec, size } }, ...precondition });
  return `Pool ${name} is scaled to ${size}.`;
}

const READ_EVERY_MS = 5000;

/** The last hour; read again only when the pool has changed, so that an idle pool costs no requests. */
function Hour({ path, row }: { path: string; row: Pool }) {
  const history = useLoad(
    `${path}/history`,
    (signal) => call<PoolHistory>("GET", `${path}/history`, { signal }),
    row,
    READ_EVERY_MS,
  );
  const [Chart, setChart] = useState<ComponentType<{ history: PoolHistory }>>();
  const [problem, setProblem] = useState<Error>();
  useEffect(() => {
    // The library is larger than the rest of the page.
    import("./chart.tsx").then(({ default: loaded }) => setChart(() => loaded), setProblem);
  }, []);
  const { value } = history;
  return (
    <section aria-labelledby="hour">
      <h2 id="hour">The last hour</h2>
      <Problem error={history.error ?? problem} />
      {/* At once with the chart, which would push down what is below it. */}
      {value !== undefined && (Chart ?? problem) !== undefined && (
        <>
          <p>{poolWords(value)}</p>
          {Chart !== undefined && <Chart history={value} />}
          <p class="muted">
            Recorded by edge replica {value.replica} since <When at={value.since} />.
          </p>
          <details>
            <summary>Each minute</summary>
            <Minutes of={value} />
          </details>
        </>
      )}
    </section>
  );
}

function Minutes({ of }: { of: PoolHistory }) {
  const columns = ["ready", "lowest", "hits", "misses", "refilled"] as const;
  return (
    <table aria-label="The last hour, each minute">
      <thead>
        <tr>
          <th scope="col">Minute</th>
          {columns.map((name) => (
            <th key={name} scope="col" class="number">
              {name === "lowest" ? "fewest ready" : name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {poolMinutes(of)
          .reverse()
          .map((minute) => (
            <tr key={minute.at}>
              <th scope="row">{new Date(minute.at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}</th>
              {columns.map((name) => (
                <td key={name} class="number">
                  {minute[name]}
                </td>
              ))}
            </tr>
          ))}
      </tbody>
    </table>
  );
}

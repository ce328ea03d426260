import { useEffect, useRef, useState } from "preact/hooks";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { mayChange } from "../api/access.ts";
import { call } from "../api/call.ts";
import { type Kinds, live } from "../api/kinds.ts";
import { useLoad } from "../api/load.ts";
import { Facts } from "../parts/facts.tsx";
import { instanceHref } from "../parts/hrefs.ts";
import { Problem } from "../parts/problem.tsx";
import { State } from "../parts/state.tsx";
import { TenantLink } from "../parts/tenant-link.tsx";
import { durationWords } from "../parts/time-words.ts";
import { When } from "../parts/when.tsx";
import type { PageParams } from "../route.ts";
import { ObjectPage } from "../spec/object-page.tsx";
import { deliveriesOf, noDeliveries, resultLook, withAnswer } from "./deliveries.ts";
import { TestDelivery } from "./test-delivery.tsx";

type Trigger = Kinds["triggers"];

export default function One({ params }: { params: PageParams }) {
  const { name = "" } = params;
  return (
    <ObjectPage
      kind="triggers"
      name={name}
      also={<p>Events in progress finish under the old spec.</p>}
      lost={() => (
        <p>Events are no longer accepted, and the delivery history is deleted. Claims made by the trigger stay.</p>
      )}
    >
      {({ row, path }) => (
        <>
          <Shown trigger={row} />
          {mayChange() && <Events trigger={row} path={path} />}
        </>
      )}
    </ObjectPage>
  );
}

function Shown({ trigger: { spec, status, createdAt } }: { trigger: Trigger }) {
  const { type, workloadRef, tenant, config, driver, guards = [] } = spec;
  const { phase = "Pending", detail } = status;
  return (
    <>
      <Facts
        of={[
          ["State", <State key="state" of={{ phase }} />],
          ["Type", type],
          ["Path", config.path !== undefined && <code>{config.path}</code>],
          ["Schedule", config.schedule && <code>{`${config.schedule} ${config.timezone ?? "UTC"}`}</code>],
          [
            "Workload",
            <a key="workload" href={`/dashboard/workloads/${workloadRef}`}>
              {workloadRef}
            </a>,
          ],
          [
            "Tenant",
            tenant.static === undefined ? (
              `${tenant.prefix ?? ""}{${tenant.from}}`
            ) : (
              <TenantLink key="tenant" of={tenant.static} />
            ),
          ],
          ["Driver", driver ?? "plain HTTP"],
          ["Guards", guards.length === 0 ? undefined : guards.map((guard) => guard.type).join(", ")],
          ["Created", <When key="created" at={createdAt} />],
        ]}
      />
      {detail !== undefined && detail !== "" && (
        <section aria-labelledby="detail">
          <h2 id="detail" class={phase === "Error" ? "is-bad" : ""}>
            Message from the gateway
          </h2>
          <p>{detail}</p>
        </section>
      )}
    </>
  );
}

const READ_EVERY_MS = 5000;

/** The last deliveries and a test; read again when claims or instances change. */
function Events({ trigger, path }: { trigger: Trigger; path: string }) {
  const [claims, instances] = [live("claims").version.value, live("instances").version.value];
  const read = useLoad(
    `${path}/deliveries`,
    (signal) => call<ApiTypes["Deliveries"]>("GET", `${path}/deliveries`, { signal }),
    claims + instances,
    READ_EVERY_MS,
  );
  const [known, setKnown] = useState(noDeliveries);
  useEffect(() => {
    const { value } = read;
    if (value !== undefined) setKnown((before) => withAnswer(before, value));
  }, [read.value]);
  const all = deliveriesOf(known);
  const edges = known.answers.size;
  // The test comes after the deliveries: they would move its button away under a click.
  const hasRead = useRef(false);
  hasRead.current ||= edges > 0 || read.error !== undefined;
  return (
    <>
      <section aria-labelledby="deliveries">
        <h2 id="deliveries">Deliveries</h2>
        <Problem error={read.error} />
        {all.length > 0 && <Deliveries of={all} />}
        {edges > 0 && (
          <p class="muted">
            {all.length === 0 && "None. "}
            From {edges === 1 ? "one replica" : `${edges} replicas`}: the last 50 events since its start.
          </p>
        )}
        <div class="acts">
          <button type="button" onClick={read.again}>
            Reload
          </button>
        </div>
      </section>
      {hasRead.current && <TestDelivery trigger={trigger} onEnd={read.again} />}
    </>
  );
}

function Deliveries({ of }: { of: ReturnType<typeof deliveriesOf> }) {
  return (
    <table aria-labelledby="deliveries" class="stack">
      <thead>
        <tr>
          <th scope="col">When</th>
          <th scope="col">Result</th>
          <th scope="col">Tenant</th>
          <th scope="col" class="number">
            Status
          </th>
          <th scope="col" class="number">
            Duration
          </th>
          <th scope="col">Pod</th>
          <th scope="col">Event</th>
        </tr>
      </thead>
      <tbody>
        {of.map(({ id, at, result, tenantId, status, ms, source, instanceId, reason, test }) => (
          <tr key={`${id} ${at}`}>
            <td>
              <When at={at} />
            </td>
            <td>
              <span class={`is-${resultLook(result)}`}>{result}</span>
              {test === true && " (test)"}
              {reason !== undefined && <div class="muted">{reason}</div>}
            </td>
            <td>{tenantId !== undefined && <TenantLink of={tenantId} />}</td>
            <td class="number" data-label="status">
              {status}
            </td>
            <td class="number" data-label="took">
              {durationWords(ms)}
            </td>
            <td>
              {instanceId !== undefined && <a href={instanceHref(instanceId)}>{instanceId}</a>}
              {source !== undefined && ` ${source}`}
            </td>
            <td>
              <code>{id}</code>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { mayAct } from "../api/access.ts";
import type { Kinds } from "../api/kinds.ts";
import { release } from "../claims/acts.tsx";
import { Address } from "../claims/address.tsx";
import { retry } from "../claims/claim.ts";
import { knownOf } from "../claims/known-of.ts";
import { remedyOf } from "../claims/remedies.ts";
import { Act, type Acts } from "../parts/acts.tsx";
import { claimHref, insideHref, instanceHref } from "../parts/hrefs.ts";
import { Long } from "../parts/long.tsx";
import { State } from "../parts/state.tsx";
import { When } from "../parts/when.tsx";

type Claim = Kinds["claims"];

/**
 * The claims of a tenant, with their cause if they fail, and what can be done.
 *
 * @param props.details by workload, as far as they are read
 */
export function Claims(props: {
  of: readonly Claim[];
  details: ReadonlyMap<string, ApiTypes["ClaimDetail"]>;
  acts: Acts;
}) {
  const { of, details, acts } = props;
  const hasAddress = [...details.values()].some(({ url }) => url !== undefined);
  return (
    <table class="stack" aria-labelledby="claims">
      <thead>
        <tr>
          <th scope="col">Workload</th>
          <th scope="col">State</th>
          <th scope="col">Claimed</th>
          <th scope="col">Pod</th>
          {hasAddress && <th scope="col">Address</th>}
          <th scope="col">Action</th>
        </tr>
      </thead>
      <tbody>
        {of.map((claim) => (
          <Row key={claim.workloadRef} {...{ claim, hasAddress, acts }} detail={details.get(claim.workloadRef)} />
        ))}
      </tbody>
    </table>
  );
}

function Row(props: { claim: Claim; detail: ApiTypes["ClaimDetail"] | undefined; hasAddress: boolean; acts: Acts }) {
  const { claim, detail, hasAddress, acts } = props;
  const { workloadRef, reason, instanceId, claimedAt } = claim;
  // Messages on the connection have no status message, and the detail may be older.
  const message = claim.message ?? (detail?.reason === reason ? detail?.message : undefined);
  const remedy = remedyOf(reason);
  return (
    <tr>
      <th scope="row">
        <a href={claimHref(claim)}>{workloadRef}</a>
      </th>
      <td>
        <State of={knownOf(claim)} />
        {reason !== undefined && <div>{reason}</div>}
        {message !== undefined && (
          <div class="muted">
            <Long of={message} />
          </div>
        )}
        {remedy !== undefined && <div class="muted">{remedy}</div>}
      </td>
      <td>
        <When at={claimedAt} />
      </td>
      <td>{instanceId !== undefined && <a href={instanceHref(instanceId)}>{instanceId}</a>}</td>
      {hasAddress && <td>{detail !== undefined && <Address of={detail} />}</td>}
      <td>{mayAct() && <ClaimActs of={claim} acts={acts} />}</td>
    </tr>
  );
}

function ClaimActs({ of, acts }: { of: Claim; acts: Acts }) {
  const { phase, workloadRef, instanceId, endpoint } = of;
  const isHeld = phase === "Pending" || phase === "Active" || phase === "Error";
  // After its pod is destroyed, an active claim has no endpoint.
  const isOver = phase === "Error" || (phase === "Active" && endpoint === undefined);
  return (
    <div class="acts">
      {isOver && <Act acts={acts} verb={`Retry ${workloadRef}`} act={() => retry(of)} />}
      {isHeld && <Act acts={acts} verb={`Release ${workloadRef}`} act={() => release(of, undefined)} />}
      {phase === "Active" && instanceId !== undefined && (
        <>
          <a class="button" aria-label={`Terminal of ${workloadRef}`} href={insideHref(instanceId, "terminal")}>
            Terminal
          </a>
          <a class="button" aria-label={`Files of ${workloadRef}`} href={insideHref(instanceId, "files")}>
            Files
          </a>
          <a class="button" aria-label={`Log of ${workloadRef}`} href={instanceHref(instanceId)}>
            Log
          </a>
        </>
      )}
    </div>
  );
}

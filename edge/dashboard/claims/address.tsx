import { useState } from "preact/hooks";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { mayAct, seesService } from "../api/access.ts";
import { call } from "../api/call.ts";
import { live } from "../api/kinds.ts";
import { Problem } from "../parts/problem.tsx";
import { When } from "../parts/when.tsx";
import type { ClaimKey } from "./claim.ts";

/** The outside address of the instance, and a link if its workload asks for one. */
export function Address({ of, url }: { of: ClaimKey; url: string }) {
  // Those who cannot read the workload ask the API for a link.
  if (!seesService()) return mayAct() ? <Linked of={of} url={url} /> : <code>{url}</code>;
  return <Exposed of={of} url={url} />;
}

function Exposed({ of, url }: { of: ClaimKey; url: string }) {
  const workloads = live("workloads");
  workloads.version.value;
  const expose = workloads.rows.get(of.workloadRef)?.spec.network?.expose;
  if (expose === "public") return <Outward url={url} />;
  if (expose === "link" && mayAct()) return <Linked of={of} url={url} />;
  return (
    <>
      <code>{url}</code>
      {expose === "key" && <span class="muted"> with the API key</span>}
    </>
  );
}

function Linked({ of, url }: { of: ClaimKey; url: string }) {
  const { tenantId, workloadRef } = of;
  const [link, setLink] = useState<ApiTypes["Link"]>();
  const [error, setError] = useState<Error>();
  if (link !== undefined) {
    return (
      <>
        <Outward url={link.url} words={url} />{" "}
        <span class="muted">
          with a link that expires <When at={link.expiresAt} />
        </span>
      </>
    );
  }
  return (
    <>
      <code>{url}</code>{" "}
      <button type="button" onClick={() => void make().catch(setError)}>
        Create link
      </button>
      <Problem error={error} />
    </>
  );

  async function make(): Promise<void> {
    const body = { workload: workloadRef };
    setLink(await call<ApiTypes["Link"]>("POST", `/tenants/${encodeURIComponent(tenantId)}/links`, { body }));
  }
}

/** The tenant's page learns nothing about this page. */
function Outward({ url, words = url }: { url: string; words?: string }) {
  return (
    <a href={url} target="_blank" rel="noopener noreferrer">
      {words}
    </a>
  );
}

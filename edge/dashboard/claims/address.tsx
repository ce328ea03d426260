import { useState } from "preact/hooks";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { mayAct } from "../api/access.ts";
import { call } from "../api/call.ts";
import { Act, type Acts } from "../parts/acts.tsx";
import { Problem } from "../parts/problem.tsx";
import { When } from "../parts/when.tsx";
import type { ClaimKey } from "./claim.ts";

type Detail = ApiTypes["ClaimDetail"];

/** The outside address of an instance, if it has one, and a link if its workload asks for one. */
export function Address({ of }: { of: Detail }) {
  const { url, expose } = of;
  if (url === undefined) return null;
  if (expose === "public") return <Outward url={url} />;
  if (expose === "link" && mayAct()) return <Linked of={of} url={url} />;
  return (
    <>
      <code>{url}</code>
      {expose === "key" && <span class="muted"> with the API key</span>}
    </>
  );
}

/** Opens the outside address in a tab of its own, with a new link where the workload asks for one. */
export function Open({ of, acts }: { of: Detail; acts: Acts }) {
  const { url, expose } = of;
  if (url === undefined) return null;
  if (expose === "public") {
    return (
      <a class="button primary" href={url} target="_blank" rel="noopener noreferrer">
        Open
      </a>
    );
  }
  if (expose === "link" && mayAct()) return <Act acts={acts} verb="Open" keys="o" class="primary" act={openLinked} />;
  return null;

  async function openLinked(): Promise<string> {
    // Browsers block a tab that is opened after the click was handled.
    const tab = open("", "_blank");
    if (tab === null) throw new Error("The browser refused to open a tab: allow it for this page, or create a link.");
    // Else the tenant's page could lead this one elsewhere.
    tab.opener = null;
    try {
      const link = await createLink(of);
      tab.location.replace(link.url);
      return "Opened in a tab of its own.";
    } catch (error) {
      tab.close();
      throw error;
    }
  }
}

function createLink({ tenantId, workloadRef }: ClaimKey): Promise<ApiTypes["Link"]> {
  const body = { workload: workloadRef };
  return call<ApiTypes["Link"]>("POST", `/tenants/${encodeURIComponent(tenantId)}/links`, { body });
}

function Linked({ of, url }: { of: ClaimKey; url: string }) {
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
      <button type="button" onClick={() => void createLink(of).then(setLink, setError)}>
        Create link
      </button>
      <Problem error={error} />
    </>
  );
}

/** The tenant's page learns nothing about this page. */
function Outward({ url, words = url }: { url: string; words?: string }) {
  return (
    <a href={url} target="_blank" rel="noopener noreferrer">
      {words}
    </a>
  );
}

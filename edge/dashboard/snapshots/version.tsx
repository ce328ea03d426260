import type { RefObject } from "preact";
import type { ClaimKey } from "../claims/claim.ts";
import { sizeWords } from "../parts/size-words.ts";
import { TenantLink } from "../parts/tenant-link.tsx";
import { When } from "../parts/when.tsx";
import { place } from "../route.ts";
import { digitsOf, type KnownVersion } from "./acts.tsx";
import { Compare, compareHref } from "./compare.tsx";
import { Files, filesHref } from "./files.tsx";

/** What one version holds, or what it changed. */
export function OneVersion(props: {
  of: ClaimKey;
  digits: string;
  isCompared: boolean;
  versions: readonly KnownVersion[];
  /** Why the versions cannot be read. */
  error: Error | undefined;
  heading: RefObject<HTMLHeadingElement | null>;
}) {
  const { of, digits, isCompared, versions, error, heading } = props;
  const { tenantId, workloadRef } = of;
  const version = versions.find((one) => digitsOf(one) === digits);
  return (
    <>
      <p class="crumbs">
        <a href="/dashboard/snapshots">Snapshots</a> / <TenantLink of={tenantId} /> /{" "}
        <a href={place.value.pathname}>{workloadRef}</a>
      </p>
      <h1 ref={heading} tabIndex={-1}>
        {digits}{" "}
        <small>
          version of {workloadRef} of {tenantId}
          {version !== undefined && (
            <>
              , <When at={version.createdAt} />, {sizeWords(version.sizeBytes)}
            </>
          )}
        </small>
      </h1>
      <div class="acts">
        {isCompared ? (
          <a class="button" href={filesHref(digits)}>
            Files
          </a>
        ) : (
          <a class="button" href={compareHref(digits)}>
            Compare
          </a>
        )}
      </div>
      {error !== undefined && <p class="muted">Cannot read the saved versions: {error.message}</p>}
      {isCompared ? <Compare {...{ of, versions }} to={digits} /> : <Files of={of} version={digits} />}
    </>
  );
}

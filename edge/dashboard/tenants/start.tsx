import { useEffect } from "preact/hooks";
import { access, isId, listedTenants } from "../api/access.ts";
import { TenantLink, tenantHref } from "../parts/tenant-link.tsx";
import { navigate } from "../route.ts";

/** Where people begin who reach only some tenants: at their tenant, or with a choice. */
export default function Start() {
  const { tenants = [] } = access.value ?? {};
  const ids = listedTenants() ?? [];
  const starts = tenants.filter((one) => !isId(one));
  const only = ids.length === 1 && starts.length === 0 ? ids[0] : undefined;
  useEffect(() => {
    if (only !== undefined) navigate(tenantHref(only), { replace: true });
  }, [only]);
  if (only !== undefined) return null;
  return (
    <>
      <h1>Tenants</h1>
      {ids.length === 0 && starts.length === 0 && <p>Your login reaches no tenant.</p>}
      {ids.length > 0 && (
        <ul class="plain">
          {ids.map((id) => (
            <li key={id}>
              <TenantLink of={id} />
            </li>
          ))}
        </ul>
      )}
      {starts.length > 0 && (
        <form
          class="spec"
          onSubmit={(event) => {
            event.preventDefault();
            const field = event.currentTarget.elements.namedItem("tenant") as HTMLInputElement;
            navigate(tenantHref(field.value.trim()));
          }}
        >
          <div class="field">
            <label for="tenant">Tenant</label>
            <input id="tenant" name="tenant" required maxLength={63} autocomplete="off" spellcheck={false} />
            <p class="muted">An id such as {starts.join(" or ")}.</p>
          </div>
          <div class="acts">
            <button type="submit">Open</button>
          </div>
        </form>
      )}
    </>
  );
}

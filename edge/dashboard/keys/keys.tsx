import { useState } from "preact/hooks";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { isId } from "../api/access.ts";
import { CallError, call } from "../api/call.ts";
import { type Loaded, useLoad } from "../api/load.ts";
import { Act, type Acts, Outcome, useActs } from "../parts/acts.tsx";
import { Command } from "../parts/command.tsx";
import { confirm } from "../parts/confirm.tsx";
import { Problem } from "../parts/problem.tsx";
import { TenantLink } from "../parts/tenant-link.tsx";
import { When } from "../parts/when.tsx";
import { problemsByField, type SpecField, withValue } from "../spec/spec-fields.ts";
import { Field } from "../spec/spec-groups.tsx";

type Key = ApiTypes["Key"];
type CreatedKey = ApiTypes["CreatedKey"];
type Given = Readonly<Record<string, unknown>>;

const DAY_SECONDS = 86_400;
const optional = { isRequired: false, schema: {} };
const FIELDS: readonly (SpecField & { readonly label: string })[] = [
  {
    ...{ path: "name", label: "Name", kind: "text", help: "What it is for, such as alice laptop." },
    ...{ isRequired: true, schema: { maxLength: 63 } },
  },
  {
    ...{ path: "role", label: "Role", kind: "choice", isRequired: true },
    help: "admin: everything. platform: all tenants, but no keys. tenant: its own tenants. reader: sees, and changes nothing.",
    schema: { enum: ["admin", "platform", "tenant", "reader"] satisfies Key["role"][] },
  },
  {
    ...{ ...optional, path: "tenants", label: "Tenants", kind: "lines" },
    help: "Ids, or the start of ids and a *. Required for the role tenant, possible for reader.",
  },
  {
    ...{ ...optional, path: "workloads", label: "Workloads", kind: "lines" },
    help: "Names, or the start of names and a *: it reaches only these. Possible for the roles tenant and reader.",
  },
  {
    ...{ ...optional, path: "requestsPerSecond", label: "Requests a second", kind: "number" },
    help: "To each replica of the edge. Empty: any number.",
  },
  {
    ...{ ...optional, path: "expiresInSeconds", label: "Expires after (days)", kind: "number" },
    help: "Empty: it is valid until you delete it.",
  },
];

/** The keys besides TENANCY_API_KEY, and a form that creates one. */
export default function Keys() {
  const keys = useLoad("keys", (signal) => call<Key[]>("GET", "/keys", { signal }));
  const acts = useActs();
  return (
    <>
      <h1>Keys</h1>
      <p class="muted">Besides TENANCY_API_KEY, which may do everything.</p>
      <Problem error={keys.error} />
      <Outcome acts={acts} />
      {keys.value?.length === 0 && <p>There are no keys.</p>}
      {keys.value !== undefined && keys.value.length > 0 && <List keys={keys.value} acts={acts} again={keys.again} />}
      {keys.value !== undefined && <Create again={keys.again} />}
    </>
  );
}

function List({ keys, acts, again }: { keys: readonly Key[]; acts: Acts; again: Loaded<Key[]>["again"] }) {
  return (
    <table class="stack sums" aria-label="Keys">
      <thead>
        <tr>
          {["Name", "Role", "Tenants", "Workloads", "Requests a second", "Created", "Expires", "Delete"].map(
            (title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ),
          )}
        </tr>
      </thead>
      <tbody>
        {keys.map((key) => {
          const { id, name, role, tenants, workloads, requestsPerSecond, createdAt, expiresAt } = key;
          return (
            <tr key={id}>
              <th scope="row" title={id}>
                {name}
              </th>
              <td>{role}</td>
              <td data-label="tenants">
                {tenants?.map((one, at) => (
                  <span key={one}>
                    {at > 0 && ", "}
                    {isId(one) ? <TenantLink of={one} /> : one}
                  </span>
                )) ?? "all"}
              </td>
              <td data-label="workloads">{workloads?.join(", ") ?? "all"}</td>
              <td data-label="requests a second">{requestsPerSecond?.toLocaleString() ?? "any number"}</td>
              <td data-label="created">
                <When at={createdAt} />
              </td>
              <td data-label="expires">{expiresAt === undefined ? "never" : <When at={expiresAt} />}</td>
              <td>
                <Act acts={acts} verb="Delete" class="danger" act={() => remove(key, again)} />
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

async function remove({ id, name }: Key, again: () => void): Promise<string | undefined> {
  const isMeant = await confirm({
    title: `Delete the key ${name}?`,
    lost: <p>It works no more. What it has opened ends: sessions, streams, terminals and links.</p>,
    verb: "Delete",
  });
  if (!isMeant) return undefined;
  await call("DELETE", `/keys/${id}`);
  again();
  return `The key ${name} is deleted.`;
}

function Create({ again }: { again(): void }) {
  const [given, setGiven] = useState<Given>({});
  const [created, setCreated] = useState<CreatedKey>();
  const acts = useActs();
  const { error } = acts;
  const isRefused = error instanceof CallError && error.status === 400;
  const problems = isRefused ? problemsByField(error.message, FIELDS) : new Map<string, string>();
  return (
    <section aria-labelledby="create">
      <h2 id="create">Create key</h2>
      {/* A form of its own for each key: its fields are empty again. */}
      <form
        class="spec"
        key={created?.id}
        onSubmit={(event) => {
          event.preventDefault();
          acts.run("Create key", create);
        }}
      >
        {FIELDS.map((field) => (
          <Field
            key={field.path}
            {...{ field, label: field.label, value: given[field.path], problem: problems.get(field.path) }}
            change={(value) => setGiven((before) => withValue(before, field.path, value))}
          />
        ))}
        <div class="acts">
          <Act acts={acts} verb="Create key" class="primary" act={create} />
        </div>
      </form>
      {isRefused ? <Problem error={problems.has("") ? error : undefined} /> : <Outcome acts={acts} />}
      {created !== undefined && <Command line={created.key} />}
    </section>
  );

  async function create(): Promise<string> {
    const { expiresInSeconds: days, ...rest } = given;
    const seconds = typeof days === "number" ? Math.round(days * DAY_SECONDS) : days;
    const key = await call<CreatedKey>("POST", "/keys", {
      body: { ...rest, ...(seconds !== undefined && { expiresInSeconds: seconds }) },
    });
    setCreated(key);
    setGiven({});
    again();
    return `Copy the key of ${key.name} now. It is not shown again.`;
  }
}

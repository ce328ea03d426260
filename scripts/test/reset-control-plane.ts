import { type ApiClient, createApiClient } from "../cluster/kubernetes/api-client.ts";
import { waitUntil } from "../cluster/process/wait-until.ts";

const LIMIT_MS = 60_000;

/** Kinds whose deletion takes effect in the API server some time later, so that the next test could still see them. */
const TAKE_EFFECT_LATE = /^(validating|mutating)(admissionpolicies|admissionpolicybindings|webhookconfigurations)$/;
/** Kinds that the API server itself or a kubelet may write at any time. */
const CHANGE_BY_THEMSELVES = /^(leases|configmaps|csinodes|events)$/;
/** Kinds that the API server derives from the definitions. */
const DERIVED = /^(apiservices|componentstatuses)$/;
const NAMESPACES = ["default", "kube-system", "kube-public", "kube-node-lease"];

interface Kind {
  /** Such as `/apis/apps/v1`. */
  readonly base: string;
  readonly resource: string;
}

interface Metadata {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly finalizers?: readonly string[];
}

interface Found extends Metadata, Kind {
  /** A value that differs after a relevant change. */
  readonly version: string;
}

/** The objects of a control plane, by their path. */
type Content = Map<string, Found>;

export interface ControlPlaneReset {
  /**
   * Deletes every object that did not exist at first, also with finalizers.
   *
   * @throws Error if the first state cannot be restored: an object of that state was changed or deleted, or another
   *   object cannot be deleted
   */
  reset(): Promise<void>;
  close(): void;
}

/**
 * Records the current objects of a control plane as the state to restore.
 *
 * @param options.hasControllers whether controllers run, which give each namespace its service account and its CA
 */
export async function noteContent(kubeconfigPath: string, { hasControllers = false } = {}): Promise<ControlPlaneReset> {
  const client = createApiClient(kubeconfigPath);
  const kinds = await readKinds(client);
  let first: Content = new Map();
  await waitUntil(
    async () => {
      first = await readContent(client, kinds);
      const own = ["serviceaccounts/default", "configmaps/kube-root-ca.crt"];
      return (
        NAMESPACES.every((name) => first.has(`/api/v1/namespaces/${name}`)) &&
        (!hasControllers ||
          [...first].every(
            ([path, { resource }]) => resource !== "namespaces" || own.every((name) => first.has(`${path}/${name}`)),
          ))
      );
    },
    { what: "the namespaces that the API server makes", limitMs: LIMIT_MS },
  );
  return {
    async reset() {
      let added: [string, Found][] = [];
      await waitUntil(
        async () => {
          const content = await readContent(client, kinds);
          added = [...content].filter(([path, { uid }]) => first.get(path)?.uid !== uid);
          if (added.length === 0) {
            assertSame(first, content);
            return true;
          }
          await Promise.all(added.map(([path, object]) => remove(client, path, object)));
          return false;
        },
        {
          what: "the control plane to be empty",
          limitMs: LIMIT_MS,
          intervalMs: 20,
          explain: () => added.map(([path]) => path).join(", "),
        },
      );
    },
    close: () => client.close(),
  };
}

function assertSame(first: Content, content: Content): void {
  for (const [path, { resource, version }] of first) {
    if (CHANGE_BY_THEMSELVES.test(resource)) continue;
    const now = content.get(path);
    if (now === undefined) throw new Error(`${path} was deleted`);
    if (now.version !== version) throw new Error(`${path} was changed`);
  }
}

async function readContent(client: ApiClient, kinds: readonly Kind[]): Promise<Content> {
  const lists = await Promise.all(kinds.map((kind) => readList(client, kind)));
  return new Map(lists.flat());
}

async function readList(client: ApiClient, kind: Kind): Promise<[string, Found][]> {
  const { base, resource } = kind;
  const { items } = (await get(client, `${base}/${resource}`)) as { items: { metadata: Metadata; spec?: unknown }[] };
  return items.map(({ metadata, spec }) => {
    const { name, namespace, resourceVersion } = metadata;
    const folder = namespace === undefined ? base : `${base}/namespaces/${namespace}`;
    // A node's kubelet writes its status.
    const version = resource === "nodes" ? JSON.stringify(spec) : resourceVersion;
    return [`${folder}/${resource}/${name}`, { ...metadata, ...kind, version }];
  });
}

/** Lists each kind once, in the version that its group prefers. */
async function readKinds(client: ApiClient): Promise<Kind[]> {
  const { groups } = (await get(client, "/apis")) as { groups: { preferredVersion: { groupVersion: string } }[] };
  const bases = ["/api/v1", ...groups.map(({ preferredVersion }) => `/apis/${preferredVersion.groupVersion}`)];
  const found = await Promise.all(
    bases
      // These are the Events of the core group again.
      .filter((base) => !base.startsWith("/apis/events.k8s.io/"))
      .map(async (base) => {
        const { resources } = (await get(client, base)) as { resources: { name: string; verbs: string[] }[] };
        return resources
          .filter(({ name, verbs }) => verbs.includes("list") && !DERIVED.test(name))
          .map(({ name }) => ({ base, resource: name }));
      }),
  );
  return found.flat();
}

async function remove(client: ApiClient, path: string, { resource, finalizers, uid }: Found): Promise<void> {
  if (TAKE_EFFECT_LATE.test(resource))
    throw new Error(`${path} was left, which still has an effect when it is deleted`);
  if (resource === "namespaces") {
    // No namespace controller runs here, so nothing else would empty and delete the namespace.
    await send(client, { method: "PUT", path: `${path}/finalize`, body: await withoutFinalizers(client, path) });
  } else if (finalizers !== undefined) {
    const contentType = "application/merge-patch+json";
    await send(client, { method: "PATCH", path, contentType, body: { metadata: { uid, finalizers: null } } });
  }
  const body = { apiVersion: "v1", kind: "DeleteOptions", gracePeriodSeconds: 0, preconditions: { uid } };
  await send(client, { method: "DELETE", path, body });
}

async function withoutFinalizers(client: ApiClient, path: string): Promise<object> {
  const namespace = (await get(client, path)) as { spec: object };
  return { ...namespace, spec: { ...namespace.spec, finalizers: [] } };
}

/** Objects that were deleted or changed in the meantime are read again. */
async function send(client: ApiClient, request: Parameters<ApiClient["call"]>[0]): Promise<void> {
  const { status, text } = await client.call(request);
  if (status >= 300 && ![404, 409, 422].includes(status)) {
    throw new Error(`Cannot ${request.method} ${request.path}: status ${status} ${text.slice(0, 300)}`);
  }
}

async function get(client: ApiClient, path: string): Promise<unknown> {
  const { status, text } = await client.call({ method: "GET", path, limitMs: LIMIT_MS });
  if (status !== 200) throw new Error(`Cannot GET ${path}: status ${status} ${text.slice(0, 300)}`);
  return JSON.parse(text);
}

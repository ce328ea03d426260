type Spec = Readonly<Record<string, unknown>>;

/** A workload of `manifests/examples`, with which a new one can begin. */
export interface Template {
  /** The new workload gets it too. */
  readonly name: string;
  readonly title: string;
  readonly says: string;
  /** What the cluster needs before it runs. */
  readonly needs: string;
  /** Its manifests, read when it is chosen. */
  load(): Promise<{ default: unknown }>;
}

const busybox = "The image is the local cluster's. Elsewhere, name one that has busybox and an ordinary user.";

export const templates: readonly Template[] = [
  {
    name: "notes",
    title: "Notes",
    says: "A page that keeps what its tenant writes: files are saved at each release.",
    needs: busybox,
    load: () => import("../../../manifests/examples/notes-workload.yaml"),
  },
  {
    name: "journal",
    title: "Journal",
    says: "Its program starts in a warm pod when a tenant takes it, after the tenant's files are there.",
    needs: busybox,
    load: () => import("../../../manifests/examples/journal-workload.yaml"),
  },
  {
    name: "welcome",
    title: "Welcome",
    says: "A program that runs in its warm pods, and is told which tenant takes it.",
    needs: busybox,
    load: () => import("../../../manifests/examples/welcome-workload.yaml"),
  },
  {
    name: "echo-agent",
    title: "Chat agent",
    says: "Answers a messenger bot or a cron tick, with an agent for each chat.",
    needs: "The image is the local cluster's, and has the programs of manifests/examples/agents.",
    load: () => import("../../../manifests/examples/echo-agent-bridge-workload.yaml"),
  },
  {
    name: "web",
    title: "Web server",
    says: "nginx, unchanged, from a public registry.",
    needs: "The cluster has to reach that registry, which the local one does not.",
    load: () => import("../../../manifests/examples/web-workload.yaml"),
  },
  {
    name: "code-interpreter-v1",
    title: "Code interpreter",
    says: "Runs Python for E2B's code interpreter SDK, with files that survive.",
    needs: "Its image is built in the cluster: docs/how-to/run-a-code-interpreter.md.",
    load: () => import("../../../manifests/examples/code-interpreter/workload.yaml"),
  },
  {
    name: "jupyterlab",
    title: "JupyterLab",
    says: "Notebooks and terminals in the browser for each tenant, which survive a release.",
    needs: "Its image is built in the cluster: docs/how-to/run-jupyterlab.md.",
    load: () => import("../../../manifests/examples/jupyterlab/workload.yaml"),
  },
  {
    name: "node-red",
    title: "Node-RED",
    says: "Flows drawn in the browser that answer webhooks, which survive a release.",
    needs: "Its image is built in the cluster: docs/how-to/run-node-red.md.",
    load: () => import("../../../manifests/examples/node-red/workload.yaml"),
  },
];

/** Links that begin the form with a template. */
export function Templates({ chosen }: { chosen: Template | undefined }) {
  return (
    <section aria-labelledby="templates">
      <h2 id="templates">Begin with a template</h2>
      <ul class="templates" aria-labelledby="templates">
        {templates.map(({ name, title, says }) => (
          <li key={name}>
            <a
              class="card"
              href={`/dashboard/create/workload?template=${name}`}
              aria-current={name === chosen?.name ? "true" : undefined}
            >
              <strong>{title}</strong>
              <span class="muted">{says}</span>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** @throws Error if the file has no workload */
export async function templateSpec({ load }: Template): Promise<Spec> {
  const { default: read } = await load();
  const manifests = (Array.isArray(read) ? read : [read]) as { kind?: string; spec?: Spec }[];
  const found = manifests.find(({ kind }) => kind === "TenancyWorkload")?.spec;
  if (found === undefined) throw new Error("the template has no workload");
  return found;
}

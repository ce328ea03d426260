// The pods and Events in recorded-starts.jsonl are a kubelet's and containerd's own, of Kubernetes 1.34.

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { CoreEvent, Pod } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import { launchCommand } from "../../../operator/launcher/launch-command.ts";
import { explanation, parseListening } from "../../../operator/pod/explain-start.ts";
import { podState } from "../../../operator/pod/pod-state.ts";

const test = suite("a start that is explained");

const recorded = readFileSync(new URL("recorded-starts.jsonl", import.meta.url), "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Pod | CoreEvent);
const allEvents = recorded.filter((object): object is CoreEvent => "involvedObject" in object);

function recordedPod(name: string): Pod {
  const found = recorded.find((object): object is Pod => "spec" in object && object.metadata.name === name);
  if (found === undefined) throw new Error(`no pod ${name} was recorded`);
  return structuredClone(found);
}

/** The recorded pod as the operator renders one of a workload with overlay directories. */
function withOverlay(name: string, ...overlayDirs: string[]): Pod {
  const pod = recordedPod(name);
  pod.metadata.annotations = { [annotation.overlayDirs]: JSON.stringify(overlayDirs) };
  return pod;
}

function withArgs(name: string): Pod {
  const pod = recordedPod(name);
  for (const container of pod.spec.containers) {
    if (container.command !== undefined) container.args = container.command;
    delete container.command;
  }
  return pod;
}

/** A pod that the launcher runs, which ended with 127 and these words. */
function launched(name: string, message: string): Pod {
  const pod = recordedPod(name);
  const [container] = pod.spec.containers;
  const [status] = pod.status?.containerStatuses ?? [];
  if (container === undefined || status?.lastState?.terminated === undefined) throw new Error(`${name} has not ended`);
  container.command = launchCommand({ program: "no-such-program", args: [], stopGraceSeconds: 20 });
  status.lastState.terminated.message = message;
  return pod;
}

const failed: [what: string, pod: Pod, message: string, fix: string][] = [
  [
    "a program that takes too much memory",
    recordedPod("oom"),
    "the container keeps exiting; last: out of memory, its limit is 16 MB (exit code 137)",
    "the workload's spec.resources.memoryMb, or its program",
  ],
  [
    "a command that is in no folder of the PATH",
    recordedPod("no-command"),
    'there is no program "no-such-program" in the container',
    "the workload's spec.entrypoint.cmd",
  ],
  [
    "a command that is no file",
    recordedPod("no-path"),
    'there is no program "/opt/no-such" in the container',
    "the workload's spec.entrypoint.cmd",
  ],
  [
    "a command under an overlay directory",
    withOverlay("overlay-bin", "/data", "/bin/"),
    'there is no program "/bin/busybox" in the container: overlay directory "/bin/" hides what the image has there',
    "the workload's spec.filesystem.overlayDirs, which are for data and not for programs",
  ],
  [
    "a command that is looked for in an overlay directory",
    withOverlay("no-command", "/usr"),
    'there is no program "no-such-program" in the container: overlay directory "/usr" hides what the image has there',
    "the workload's spec.filesystem.overlayDirs, which are for data and not for programs",
  ],
  [
    "a command beside an overlay directory",
    withOverlay("no-path", "/opt/no-such-thing", "/op"),
    'there is no program "/opt/no-such" in the container',
    "the workload's spec.entrypoint.cmd",
  ],
  [
    "a command that the launcher does not find",
    launched("shell-127", 'exec: "no-such-program": executable file not found in $PATH'),
    'there is no program "no-such-program" in the container',
    "the workload's spec.entrypoint.cmd; without it, the image names this program",
  ],
  [
    "a command that is a directory",
    recordedPod("directory"),
    'the program "/bin" cannot be run (permission denied): it is not executable for the user of the image',
    "the workload's spec.entrypoint.cmd",
  ],
  [
    "a working directory that is a file",
    recordedPod("workdir"),
    "the container keeps exiting; last: it could not be started (failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: mkdir /bin/busybox: not a directory: unknown)",
    "the workload's spec.entrypoint.workdir",
  ],
  [
    "a shell that finds no program",
    recordedPod("shell-127"),
    "the container keeps exiting; last: exit code 127 (sh: no-such-program: not found)",
    "the workload's spec.entrypoint, or the program in its image",
  ],
  [
    "a program that ends with 1",
    recordedPod("crash"),
    "the container keeps exiting; last: exit code 1 (tenancy-crash: ends with status 1, as it is made to)",
    "the workload's spec.entrypoint, or the program in its image",
  ],
  [
    "a program that ends well",
    recordedPod("ends"),
    "the container keeps exiting; last: exit code 0 (Completed), but the program has to keep running",
    "the workload's spec.entrypoint, or the program in its image",
  ],
];

for (const [what, pod, message, fix] of failed) {
  test(`${what} is told with the field to change`, () => {
    const state = podState(pod);
    assert.is(state.state, "failed");
    assert.equal(state.state === "failed" && { reason: state.reason, message: state.message, fix: state.fix }, {
      ...{ reason: "CrashLooping", message, fix },
    });
  });
}

test("a program whose child took too much memory, and which is about to be started again, says both", () => {
  const state = podState(recordedPod("oom-child"));
  assert.is(state.state, "starting");
  assert.is(
    state.state === "starting" && state.message,
    "the container has ended and is started again; last: out of memory, its limit is 16 MB (exit code 3)",
  );
});

test("the first word of args is told as such, and the image's own program as the image's", () => {
  const args = podState(withArgs("no-command"));
  assert.match(args.state === "failed" ? args.fix : "", /spec\.entrypoint: args without cmd/);
  const own = withArgs("no-path");
  for (const container of own.spec.containers) delete container.args;
  const image = podState(own);
  assert.match(
    image.state === "failed" ? image.fix : "",
    /spec\.image\.ref, or name a program in spec\.entrypoint\.cmd/,
  );
});

test("an image that cannot be pulled names its field, and an image of the operator's the operator's variable", () => {
  const state = podState(recordedPod("no-image"));
  assert.is(state.state === "failed" && state.fix, "the workload's spec.image.ref");
  assert.match(state.state === "failed" ? state.message : "", /^image localhost\/does-not-exist:1 cannot be pulled: /);
  const fixOf = (message: string) => {
    const refused = recordedPod("no-image");
    for (const status of refused.status?.containerStatuses ?? [])
      status.state = { waiting: { reason: "ImagePullBackOff", message } };
    const of = podState(refused);
    return of.state === "failed" ? of.fix : of.state;
  };
  assert.match(fixOf("unexpected status: 401 Unauthorized"), /spec\.image\.ref, or spec\.image\.pullSecrets$/);
  assert.match(fixOf('Container image "i" is not present with pull policy of Never'), /spec\.image\.pullPolicy/);
  const built = recordedPod("no-image");
  for (const status of built.status?.containerStatuses ?? []) status.image = `r.example/w@sha256:${"1".repeat(64)}`;
  const gone = podState(built);
  assert.match(gone.state === "failed" ? gone.fix : "", /TENANCY_REGISTRY_PULL_SECRET .* tenancy\.dev\/rebuild/);
  for (const [name, variable] of [
    ["tenancy-tools", "TENANCY_TOOLS_IMAGE"],
    ["tenancy-egress", "TENANCY_PROXY_IMAGE"],
  ] as const) {
    const pod = recordedPod("no-image");
    for (const status of pod.status?.containerStatuses ?? []) status.name = name;
    const own = podState(pod);
    assert.is(own.state === "failed" && own.fix, `${variable} of the operator`);
  }
});

test("a pod that no node can take says what it asks for of what is short, and nothing of preemption", () => {
  const state = podState(recordedPod("huge"));
  assert.equal(state, {
    state: "unschedulable",
    message:
      "no node can take the pod yet: 0/1 nodes are available: 1 Insufficient cpu; the pod asks for 1k CPU by spec.resources.vcpus of its workload",
  });
});

test("a program that runs is not failed for an end before", () => {
  const pod = recordedPod("no-path");
  for (const status of pod.status?.containerStatuses ?? []) status.state = { running: {} };
  assert.is(podState(pod).state, "starting");
});

test("a pod that was evicted because its node is full names no field", () => {
  const pod = recordedPod("disk");
  if (pod.status !== undefined)
    pod.status.message =
      "The node was low on resource: ephemeral-storage. Container workload was using 5Gi, which exceeds its request of 1Gi. ";
  const state = podState(pod);
  assert.not.match(state.state === "lost" ? state.message : "", "diskGb");
});

test("a pod that was evicted for its files names the disk's field", () => {
  const state = podState(recordedPod("disk"));
  assert.is(
    state.state === "lost" && state.message,
    'pod disk ended (Evicted: Usage of EmptyDir volume "v" exceeds the limit "16Mi".: its files take more than the workload\'s spec.resources.diskGb)',
  );
});

/** What is told of a recorded pod by the Events until a time of the day. */
function explained(
  name: string,
  { until = "24", ...more }: { until?: string; listening?: ReturnType<typeof parseListening>; ports?: number[] } = {},
) {
  const pod = recordedPod(name);
  for (const container of pod.spec.containers)
    container.ports = (more.ports ?? []).map((containerPort) => ({ containerPort }));
  const state = podState(pod);
  assert.is(state.state, "starting");
  const message = state.state === "starting" ? state.message : "";
  const events = allEvents.filter((event) => (event.lastTimestamp ?? "").slice(11) < until);
  return explanation({ pod, message, events, listening: more.listening });
}

test("a refused probe is told with its port, what the workload declares and where the pod listens", () => {
  const refused = "the health check failed at 2026-11-22T09:11:18Z: connection refused on port 8081";
  const open = { port: 8080, isOpen: true };
  const hints: [ports: number[], listening: ReturnType<typeof parseListening>, hint: string][] = [
    [[8081], undefined, ""],
    [[8080, 9090], undefined, "; the workload declares 8080, 9090"],
    [[8080], [open], "; the workload declares 8080; the pod listens on port 8080"],
    [[8081], [{ port: 9000, isOpen: false }, open, open], "; the pod listens on port 8080"],
    [
      [8081],
      [{ port: 8081, isOpen: false }, open],
      "; the program listens there only on the loopback address: make it listen on 0.0.0.0",
    ],
    [[8081], [], "; nothing in the pod listens yet"],
  ];
  for (const [ports, listening, hint] of hints) {
    assert.equal(explained("wrong-port", { ports, listening }), {
      reason: "Unhealthy",
      message: `${refused} (spec.health.httpGet.port)${hint}`,
      fix: "the workload's spec.health.httpGet.port, or the program that should listen there",
    });
  }
  assert.match(
    explained("wrong-port-tcp", { ports: [8081] }).message,
    /refused on port 8081 \(spec\.network\.ports\)$/,
  );
});

test("other failures of a probe are told with their field", () => {
  const path = explained("wrong-path");
  assert.match(path.message, /GET \/no-such \(spec\.health\.httpGet\.path\) on port 8080 is answered with 404$/);
  assert.match(path.fix, /spec\.health\.httpGet\.path/);
  assert.match(explained("no-answer", { until: "09:11:00" }).message, /no answer on port 8080 within 2 s$/);
  assert.match(explained("no-http").message, /on port 8080, .*malformed HTTP response "hi"$/);
});

test("without an Event of this run, and with Events of another pod, only the pod's status is told", () => {
  const pod = recordedPod("wrong-port");
  const said = { message: "as the status says", pod };
  const only = { reason: "Starting", message: "as the status says" };
  const { fix: _, ...without } = explanation({ ...said, events: [] });
  assert.equal(without, only);
  const others = allEvents.filter(({ involvedObject }) => involvedObject.uid !== pod.metadata.uid);
  assert.is(explanation({ ...said, events: others }).message, only.message);
  const [status] = pod.status?.containerStatuses ?? [];
  if (status !== undefined) status.state = { running: { startedAt: "2026-11-22T10:00:00Z" } };
  assert.is(explanation({ ...said, events: allEvents }).message, only.message);
});

test("an image that is being pulled is told, until it is there", () => {
  const pod = recordedPod("no-image");
  const [status] = pod.status?.containerStatuses ?? [];
  if (status !== undefined) status.state = { waiting: { reason: "ContainerCreating" } };
  const own = allEvents.filter(({ involvedObject }) => involvedObject.name === "no-image");
  const pulling = own.filter(({ reason }) => reason === "Scheduled" || reason === "Pulling");
  assert.equal(explanation({ pod, message: "set up", events: pulling }), {
    ...{ reason: "Pulling", message: 'image "localhost/does-not-exist:1" is being pulled' },
    fix: "spec.image.ref for a smaller image or a nearer registry, or spec.entrypoint.startTimeoutSeconds",
  });
  const pulled = { ...own[0], reason: "Pulled", lastTimestamp: "2026-11-22T09:12:00Z" } as CoreEvent;
  assert.is(explanation({ pod, message: "set up", events: [...pulling, pulled] }).message, "set up");
});

test("where a pod listens is read as Linux tells it", async () => {
  const wanted = [
    { host: "127.0.0.1", isOpen: false },
    { host: "::1", isOpen: false },
    { host: "0.0.0.0", isOpen: true },
    { host: "::", isOpen: true },
  ];
  const servers = await Promise.all(
    wanted.map(async ({ host }) => {
      const server = createServer().listen(0, host);
      await once(server, "listening");
      return server;
    }),
  );
  try {
    const text = ["tcp", "tcp6"].map((name) => readFileSync(`/proc/net/${name}`, "utf8")).join("");
    const found = parseListening(text) ?? [];
    servers.forEach((server, index) => {
      const { port } = server.address() as { port: number };
      const { host, isOpen } = wanted[index] ?? {};
      assert.equal(
        found.filter((one) => one.port === port).map((one) => one.isOpen),
        [isOpen],
        host,
      );
    });
  } finally {
    for (const server of servers) server.close();
  }
  assert.is(parseListening("cat: not found"), undefined);
});

test.run();

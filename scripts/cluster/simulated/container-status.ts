import type { Container } from "./pod.ts";

/** What a container is doing. */
export type ContainerState =
  | { readonly kind: "running"; readonly ready: boolean }
  | { readonly kind: "waiting"; readonly reason: string; readonly message?: (container: Container) => string }
  | { readonly kind: "terminated"; readonly exitCode: number; readonly restartCount: number }
  | { readonly kind: "crash-loop"; readonly exitCode: number; readonly restartCount: number };

/**
 * Returns a container's entry in a pod's status.
 *
 * @param now RFC 3339
 */
export function containerStatus(container: Container, state: ContainerState, now: string): Record<string, unknown> {
  const image = container.image ?? "";
  const started = { containerID: `simulated://${container.name}`, imageID: `${image}@simulated` };
  const common = {
    name: container.name,
    image,
    imageID: "",
    ready: false,
    started: false,
    restartCount: 0,
    lastState: {},
  };
  // What the program printed last, which a kubelet tells under FallbackToLogsOnError.
  const lastWords = container.env?.find(({ name }) => name === "LAST_WORDS")?.value;
  const terminated = (exitCode: number): Record<string, unknown> => ({
    exitCode,
    reason: exitCode === 0 ? "Completed" : "Error",
    startedAt: now,
    finishedAt: now,
    containerID: started.containerID,
    ...(exitCode !== 0 && lastWords !== undefined && { message: lastWords }),
  });
  switch (state.kind) {
    case "running":
      return { ...common, ...started, ready: state.ready, started: true, state: { running: { startedAt: now } } };
    case "waiting": {
      const message = state.message?.(container);
      return { ...common, state: { waiting: { reason: state.reason, ...(message && { message }) } } };
    }
    case "terminated":
      return {
        ...common,
        ...started,
        ready: state.exitCode === 0,
        restartCount: state.restartCount,
        state: { terminated: terminated(state.exitCode) },
      };
    case "crash-loop":
      return {
        ...common,
        ...started,
        restartCount: state.restartCount,
        lastState: { terminated: terminated(state.exitCode) },
        state: {
          waiting: {
            reason: "CrashLoopBackOff",
            message: `back-off 10s restarting failed container=${container.name}`,
          },
        },
      };
  }
}

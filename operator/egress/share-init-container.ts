import type { Container } from "../../crds/kubernetes.ts";

export interface ShareInitContainerOptions {
  /** What closes the network. */
  readonly redirect: Container;
  /** Those of the snapshot tools: one, or none. */
  readonly tools: readonly Container[];
  /** Whether files are restored into the tools' container. */
  readonly isRestored: boolean;
}

/**
 * Puts the redirect and the snapshot tools into one init container where that can be, since each costs up to a second of the
 * kubelet's time.
 *
 * Where files are restored it cannot: that container runs as their owner, and the redirect needs root; and what a tenant saved is not
 * unpacked by a process with NET_ADMIN.
 */
export function shareInitContainer({ redirect, tools, isRestored }: ShareInitContainerOptions): Container[] {
  const [tool, ...others] = tools;
  if (tool === undefined) return [redirect];
  if (isRestored || others.length > 0) return [redirect, ...tools];
  return [
    {
      ...redirect,
      command: [...(redirect.command ?? []).slice(0, -1), `${scriptOf(redirect)}\n${scriptOf(tool)}`],
      ...(tool.resources !== undefined && { resources: tool.resources }),
      volumeMounts: [...(redirect.volumeMounts ?? []), ...(tool.volumeMounts ?? [])],
    },
  ];
}

function scriptOf({ name, command = [] }: Container): string {
  const script = command.at(-1);
  if (command.at(-2) !== "-c" || script === undefined) {
    throw new TypeError(`Cannot share an init container with ${name}: it runs no shell script`);
  }
  return script;
}

import { signal } from "@preact/signals";

/** By instance: the process of the shell that was open last, to which the link to its terminal leads back. */
export const leftShells = signal<ReadonlyMap<string, number>>(new Map());

/** @param pid undefined if the shell has ended */
export function rememberShell(instance: string, pid: number | undefined): void {
  if (leftShells.peek().get(instance) === pid) return;
  const next = new Map(leftShells.peek());
  if (pid === undefined) next.delete(instance);
  else next.set(instance, pid);
  leftShells.value = next;
}

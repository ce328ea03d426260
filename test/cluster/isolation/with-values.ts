/**
 * A copy of an object with values set at dotted paths, such as `spec.containers.0.image`; undefined removes what is there.
 */
export function withValues<T extends object>(object: T, values: Readonly<Record<string, unknown>>): T {
  const copy = structuredClone(object);
  for (const [path, value] of Object.entries(values)) {
    const steps = path.split(".").map((step) => step.replaceAll("|", "."));
    const last = steps.pop() ?? "";
    let at = copy as Record<string, unknown>;
    for (const step of steps) {
      at[step] ??= {};
      at = at[step] as Record<string, unknown>;
    }
    if (value === undefined) delete at[last];
    else at[last] = value;
  }
  return copy;
}

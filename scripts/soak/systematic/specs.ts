import { poolSpecSchema } from "../../../crds/pool.ts";
import { plainSchema } from "../../../crds/schema/schema.ts";
import { workloadSpecSchema } from "../../../crds/workload.ts";
import { FILES_FOLDER } from "../cluster/pod-files.ts";
import { BASE_SPEC } from "./scene.ts";
import { type Field, fieldsOf, withField } from "./spec-values.ts";

/** The specs of a workload and of its pool. */
export interface Specs {
  readonly workload: object;
  readonly pool: { readonly size: number };
}

const BASE: Specs = { workload: BASE_SPEC, pool: { size: 1 } };
/**
 * Nothing is built in a soak, and a workload without an image keeps the ready pods that it had, on purpose. No
 * workload's program runs, so none can be started or asked.
 */
const LEFT_OUT =
  /^workload\.image\.(dockerfile|context|args)|^workload\.entrypoint\.(start|onClaim\.httpPost)|^pool\.workloadRef/;
/** Instead of a limit: more pods than fit, and a claim that ends while it is looked at. */
const VALUES: Readonly<Record<string, readonly unknown[]>> = {
  "pool.size": [0, 3],
  "workload.idle.timeoutSeconds": [600, 31536000],
  // A claim waits for a command that fails.
  "workload.entrypoint.onClaim.exec.command": [
    ["/bin/busybox", "true"],
    ["/bin/busybox", "test", "-s", "/run/tenancy/claim/claim.json"],
  ],
};
/** What a field needs beside it. */
const OVERLAY = { overlayDirs: [FILES_FOLDER], checkpointSeconds: 0 };
const COMPANIONS: readonly (readonly [RegExp, string, object])[] = [
  [/^workload\.network\.(allowlist|credentials)/, "network", { ...BASE_SPEC.network, access: "restricted" }],
  [
    /^workload\.filesystem\.preSave/,
    "filesystem",
    { ...OVERLAY, preSave: { command: ["/bin/busybox", "true"], onError: "Continue" } },
  ],
  [/^workload\.entrypoint\.onClaim/, "entrypoint", { onClaim: { exec: { command: ["/bin/busybox", "true"] } } }],
];

/** The fields that are moved, and their values. */
export const FIELDS: readonly Field[] = [
  ...fieldsOf(plainSchema(workloadSpecSchema), "workload."),
  ...fieldsOf(plainSchema(poolSpecSchema), "pool."),
]
  .filter(({ path }) => !LEFT_OUT.test(path))
  .map((field) => ({ ...field, values: VALUES[field.path] ?? field.values }));

/**
 * Returns specs with a value of a field, or without it, and with what it needs beside it. A field that others of its
 * object require stays as these need it.
 */
export function specsWith({ path, isRequired }: Field, value?: unknown): Specs {
  const [kind = "", ...rest] = path.split(".");
  const field = rest.join(".");
  // Of the two ways to give an image there must be one.
  const isImage = path.startsWith("workload.image");
  if (kind === "pool" || isImage) {
    const given =
      value === undefined ? {} : { [isImage ? "image" : field]: isImage ? { [rest[1] ?? ""]: value } : value };
    return isImage
      ? { ...BASE, workload: { ...BASE.workload, ...given } }
      : { ...BASE, pool: { ...BASE.pool, ...given } };
  }
  let workload = BASE.workload;
  for (const [pattern, name, companion] of COMPANIONS)
    if (pattern.test(path)) workload = { ...workload, [name]: companion };
  const isKept = value === undefined && isRequired;
  return { ...BASE, workload: isKept ? workload : withField(workload, field, value) };
}

import { inputProblems } from "../claims/claim-inputs.ts";
import { labelProblems } from "../claims/claim-labels.ts";
import { type TriggerGuard, type TriggerSpec, triggerSpecSchema } from "../trigger.ts";
import { plainSchema } from "./schema.ts";
import { type ProblemOptions, schemaProblems } from "./schema-problems.ts";

const schema = plainSchema(triggerSpecSchema);
const MESSENGER_FIELDS = ["chatId", "userId", "usernameOrId"];

/**
 * The problems of a trigger's spec: sentences that name the field and say what to change; empty if it is valid.
 *
 * The same rules as the CRD's schema and CEL, and those that neither can express.
 */
export function triggerProblems(spec: unknown, options: ProblemOptions = {}): string[] {
  const problems = schemaProblems({ value: spec, schema, path: "spec" }, options);
  if (problems.length > 0) return problems;
  const trigger = spec as TriggerSpec;
  return [
    ...tenantProblems(trigger),
    ...configProblems(trigger),
    ...signingProblems(trigger),
    ...claimProblems(trigger),
    ...(trigger.guards ?? []).flatMap(guardProblems),
  ];
}

function tenantProblems({ type, tenant }: TriggerSpec): string[] {
  if ((tenant.from === undefined) === (tenant.static === undefined)) {
    return ["spec.tenant: give exactly one of from and static"];
  }
  if (type === "cron" && tenant.static === undefined) return ["spec.tenant.static: required for a cron trigger"];
  if (type === "messenger" && tenant.from !== undefined && !MESSENGER_FIELDS.includes(tenant.from)) {
    return [`spec.tenant.from: must be one of ${MESSENGER_FIELDS.join(", ")} for a messenger trigger`];
  }
  return [];
}

function configProblems({ type, config }: TriggerSpec): string[] {
  switch (type) {
    case "webhook":
      return config.path === undefined ? ["spec.config.path: required for a webhook trigger"] : [];
    case "messenger":
      return config.botTokenSecretRef === undefined
        ? ["spec.config.botTokenSecretRef: required for a messenger trigger: the Secret with its bot's token"]
        : [];
    case "cron":
      return [...scheduleProblems(config.schedule), ...timezoneProblems(config.timezone, "spec.config.timezone")];
    default:
      return type satisfies never;
  }
}

/** A WebSocket's messages have no headers, so an event could pass without a signature. */
function signingProblems({ signing, driver }: TriggerSpec): string[] {
  if (signing === undefined || driver === undefined) return [];
  return ["spec.signing: only for plain HTTP; remove it, or spec.driver"];
}

function scheduleProblems(schedule: string | undefined): string[] {
  if (schedule === undefined) return ["spec.config.schedule: required for a cron trigger"];
  const fields = schedule.trim().split(/\s+/).length;
  return fields === 5 ? [] : [`spec.config.schedule: must have five fields, such as 0 9 * * 1-5, not ${fields}`];
}

export function timezoneProblems(timezone: string | undefined, path: string): string[] {
  if (timezone === undefined) return [];
  try {
    new Intl.DateTimeFormat("en", { timeZone: timezone });
    return [];
  } catch {
    return [`${path}: must be an IANA name such as Europe/Berlin`];
  }
}

function claimProblems({ claim: { inputs = {}, labels = {} } = {} }: TriggerSpec): string[] {
  return [...inputProblems(inputs, "spec.claim.inputs"), ...labelProblems(labels, "spec.claim.labels")];
}

function guardProblems({ type, config }: TriggerGuard, index: number): string[] {
  const path = `spec.guards[${index}].config`;
  if (type === "allowlist" && config.tenantIds === undefined) {
    return [`${path}.tenantIds: required for an allowlist guard: the allowed tenant ids`];
  }
  if (type === "api" && !URL.canParse(config.url ?? ""))
    return [`${path}.url: required for an api guard: the URL to call`];
  return [];
}

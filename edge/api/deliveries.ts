import * as v from "valibot";
import type { ClaimSource } from "../../crds/claim.ts";
import type { Clock } from "../../crds/client/clock.ts";
import { quote } from "../../crds/quote.ts";
import type { Span } from "../../crds/tracing/tracer.ts";
import type { Trigger } from "../../crds/trigger.ts";
import { linkSignals } from "../../crds/waits.ts";
import { platformOnly } from "../access/route-access.ts";
import { HttpError } from "../http/http-error.ts";
import { pathParam, triggerNameRule } from "../http/parameters.ts";
import { readJson } from "../http/read-json.ts";
import { jsonResponse } from "../http/response.ts";
import type { RoutedRequest } from "../http/router.ts";
import { type ApiRoute, bodySchema } from "./api-route.ts";
import type { ApiTypes } from "./openapi/schemas.ts";

export interface DeliveryServices {
  /** Undefined if this process does not have the role gateway. */
  readonly gateway: () => Deliverer | undefined;
  /** A name of this process. */
  readonly instance: string;
  readonly randomId: () => string;
  readonly clock: Clock;
}

/** The part of the gateway that these routes use. */
export interface Deliverer {
  /** Whether every trigger was reconciled once, and the watch is open. */
  isReady(): boolean;
  find(name: string): Trigger | undefined;
  /** The last events of a trigger and their results, newest first. */
  deliveriesOf(trigger: Trigger): Delivery[];
  /** Runs the trigger's events; undefined while the trigger is not served. */
  runnerOf(trigger: Trigger): TestRunner | undefined;
}

interface TestRunner {
  /** Aborted when the trigger is edited or deleted, or the edge stops. */
  readonly signal: AbortSignal;
  run(
    event: { id: string; data: unknown; fields: unknown; text: string | undefined; receivedAt: string; test: true },
    options: { signal: AbortSignal; onEnded: (delivery: Delivery) => void; span: Span | undefined },
  ): Promise<Outcome>;
}

type Outcome =
  | { readonly kind: "answered"; readonly reply: { readonly contentType: string; readonly body: Uint8Array } }
  | { readonly kind: "denied" | "refused" | "failed"; readonly message: string };

/**
 * The result of an event. It contains nothing of the body or headers, except the sender's id of an accepted delivery,
 * and no text of the container or a guard: readers of this log may not be allowed to see those.
 */
export interface Delivery {
  /** Id of the event. */
  readonly id: string;
  /** When it arrived, ISO 8601. */
  readonly at: string;
  readonly result: ApiTypes["TestDelivery"]["result"];
  readonly tenantId?: string | undefined;
  /** The status sent to its source, if the source uses HTTP. */
  readonly status?: number | undefined;
  /** Milliseconds from arrival to response. */
  readonly ms: number;
  /** How its pod was found. */
  readonly source?: ClaimSource | undefined;
  readonly instanceId?: string | undefined;
  /** Why it was not answered, in the edge's own words. */
  readonly reason?: string | undefined;
  /** Sent by POST /triggers/{id}/test. */
  readonly test?: true | undefined;
}

const ONE = "/api/v1/triggers/:id";
const MAX_SHOWN_BYTES = 64 * 1024;
const GONE = 499;

const testBody = v.strictObject({
  data: v.optional(
    v.pipe(v.unknown(), v.description("Data of the event; without it, the `payload` of a trigger of type cron.")),
  ),
  fields: v.optional(
    v.pipe(v.unknown(), v.description("The object to which the path `spec.tenant.from` applies; without it, `data`.")),
  ),
  text: v.optional(v.pipe(v.string(), v.description("The message of a person, for triggers of chats."))),
});

/** Routes for the results of trigger events, and for sending a test event. */
export function deliveryRoutes(services: DeliveryServices): ApiRoute[] {
  const { instance, randomId, clock } = services;
  const since = new Date(clock.now()).toISOString();
  return [
    {
      method: "GET",
      path: `${ONE}/deliveries`,
      access: platformOnly,
      summary: "Results of a trigger's last events",
      description:
        "At most 50 per trigger, kept in memory by the replica that received the event: call several times to reach other replicas. Never contains the content of an event or its response.",
      answer: "Deliveries",
      errors: [404, 503],
      handle(request) {
        const { gateway, trigger } = served(request, services);
        return jsonResponse({ replica: instance, since, deliveries: gateway.deliveriesOf(trigger) });
      },
    },
    {
      method: "POST",
      path: `${ONE}/test`,
      access: platformOnly,
      summary: "Send a test event to a trigger",
      description:
        "Handled like a real event: tenant, guards, a claim of a real pod, the container. No signature is needed. Responds after the container has, with the response that the source would have received; the status of this call is 200 even if the event failed.",
      body: bodySchema(testBody),
      answer: "TestDelivery",
      errors: [404, 408, 409, 413, 503],
      async handle(request, { clientGone = request.signal, mayBeSilent, span }) {
        const { gateway, trigger } = served(request, services);
        const { data = trigger.spec.config.payload ?? null, fields = data, text } = await readJson(request, testBody);
        const runner = gateway.runnerOf(trigger);
        if (runner === undefined) throw notServed(trigger);
        mayBeSilent?.();
        const linked = linkSignals(clientGone, runner.signal);
        const receivedAt = new Date(clock.now()).toISOString();
        const id = `${trigger.metadata.name}-test-${randomId()}`;
        let delivery: Delivery | undefined;
        const onEnded = (ended: Delivery): void => {
          delivery = ended;
        };
        try {
          const outcome = await runner.run(
            { id, data, fields, text, receivedAt, test: true },
            { signal: linked.signal, onEnded, span },
          );
          return jsonResponse({ ...delivery, ...shown(outcome) });
        } catch (error) {
          if (clientGone.aborted) throw new HttpError(GONE, "the client went away", { cause: error });
          if (delivery?.result !== "aborted") throw error;
          throw new HttpError(503, "the trigger was edited or deleted, or the server is stopping; try again", {
            expected: true,
            headers: { "retry-after": "1" },
            cause: error,
          });
        } finally {
          linked.close();
        }
      },
    },
  ];
}

function served(request: RoutedRequest, services: DeliveryServices): { gateway: Deliverer; trigger: Trigger } {
  const name = pathParam(request, "id", triggerNameRule);
  const gateway = services.gateway();
  if (gateway === undefined) {
    throw new HttpError(
      404,
      "deliveries are stored by the gateway: ask an edge whose TENANCY_EDGE_ROLES contains gateway",
    );
  }
  if (!gateway.isReady()) {
    throw new HttpError(503, "the trigger cache is not synced yet; try again shortly", {
      headers: { "retry-after": "1" },
    });
  }
  const trigger = gateway.find(name);
  if (trigger === undefined) throw new HttpError(404, `trigger ${quote(name)} does not exist`);
  return { gateway, trigger };
}

function notServed({ metadata, status }: Trigger): HttpError {
  const why = status?.detail === undefined || status.detail === "" ? "try again shortly" : status.detail;
  return new HttpError(409, `trigger ${quote(metadata.name)} is not served now: ${why}`);
}

/** The response that the event's source would have received; the caller of a test may see it. */
function shown(outcome: Outcome): { contentType: string; body: string; truncated?: true } | { message: string } {
  if (outcome.kind !== "answered") return { message: outcome.message };
  const { contentType, body } = outcome.reply;
  const text = new TextDecoder().decode(body.subarray(0, MAX_SHOWN_BYTES));
  return { contentType, body: text, ...(body.byteLength > MAX_SHOWN_BYTES && { truncated: true as const }) };
}

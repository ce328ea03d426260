import * as v from "valibot";
import type { ClaimSource } from "../../crds/claim.ts";
import type { Clock } from "../../crds/client/clock.ts";
import type { Span } from "../../crds/tracing/tracer.ts";
import type { Trigger } from "../../crds/trigger.ts";
import { linkSignals } from "../../crds/waits.ts";
import { HttpError, quote } from "../http/http-error.ts";
import { pathParam, triggerNameRule } from "../http/parameters.ts";
import { readJson } from "../http/read-json.ts";
import { jsonResponse } from "../http/response.ts";
import type { RoutedRequest } from "../http/router.ts";
import { type ApiRoute, bodySchema } from "./api-route.ts";
import type { ApiTypes } from "./openapi/schemas.ts";

/** What the routes of deliveries work with. */
export interface DeliveryServices {
  /** Undefined where this process has not the role gateway. */
  readonly gateway: () => Deliverer | undefined;
  /** A word for this process. */
  readonly instance: string;
  readonly randomId: () => string;
  readonly clock: Clock;
}

/** The gateway, as these routes ask it. */
export interface Deliverer {
  /** Whether every trigger was reconciled once, and the watch is open. */
  isReady(): boolean;
  find(name: string): Trigger | undefined;
  /** What became of a trigger's last events, the newest first. */
  deliveriesOf(trigger: Trigger): Delivery[];
  /** What runs the trigger's events; undefined while it is not served. */
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
 * What became of an event. Never anything of its body or its headers but the sender's id of a delivery that was
 * accepted, and never a word of the container or of a guard: whoever reads this log is not who they were meant for.
 */
export interface Delivery {
  /** The event's. */
  readonly id: string;
  /** When it arrived, ISO 8601. */
  readonly at: string;
  readonly result: ApiTypes["TestDelivery"]["result"];
  readonly tenantId?: string | undefined;
  /** What its source was answered, where that speaks HTTP. */
  readonly status?: number | undefined;
  /** From its arrival to its answer. */
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
    v.pipe(v.unknown(), v.description("What the event carries; without it, the `payload` of a trigger of type cron.")),
  ),
  fields: v.optional(
    v.pipe(v.unknown(), v.description("The object in which `spec.tenant.from` is a path; without it, `data`.")),
  ),
  text: v.optional(v.pipe(v.string(), v.description("What a person wrote, for triggers of chats."))),
});

/** What became of the events of triggers, and an event to try one with. */
export function deliveryRoutes(services: DeliveryServices): ApiRoute[] {
  const { instance, randomId, clock } = services;
  const since = new Date(clock.now()).toISOString();
  return [
    {
      method: "GET",
      path: `${ONE}/deliveries`,
      summary: "What became of a trigger's last events",
      description:
        "At most 50 of a trigger, kept in memory by the replica that had the event: ask several times to hear of more than one. Never what an event or its answer said.",
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
      summary: "Send a trigger an event of your own",
      description:
        "It takes the way of a real one: tenant, guards, a claim of a real pod, the container. No signature is asked for. Answers when the container has, with what its source would have been told; the answer's own status is 200 also where the event failed.",
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
          throw new HttpError(503, "the trigger was edited or deleted, or the server stops; try again", {
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
    throw new HttpError(404, "deliveries are kept by the gateway: ask an edge whose TENANCY_EDGE_ROLES has gateway");
  }
  if (!gateway.isReady()) {
    throw new HttpError(503, "the triggers are not in cache yet; try again shortly", {
      headers: { "retry-after": "1" },
    });
  }
  const trigger = gateway.find(name);
  if (trigger === undefined) throw new HttpError(404, `trigger ${quote(name)} does not exist`);
  return { gateway, trigger };
}

function notServed({ metadata, status }: Trigger): HttpError {
  const why = status?.detail === undefined || status.detail === "" ? "try again shortly" : status.detail;
  return new HttpError(409, `trigger ${quote(metadata.name)} is not served at the moment: ${why}`);
}

/** What the event's source would have been told, for the caller, who may know it. */
function shown(outcome: Outcome): { contentType: string; body: string; truncated?: true } | { message: string } {
  if (outcome.kind !== "answered") return { message: outcome.message };
  const { contentType, body } = outcome.reply;
  const text = new TextDecoder().decode(body.subarray(0, MAX_SHOWN_BYTES));
  return { contentType, body: text, ...(body.byteLength > MAX_SHOWN_BYTES && { truncated: true as const }) };
}

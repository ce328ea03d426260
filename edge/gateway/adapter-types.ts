import type { Clock } from "../../crds/client/clock.ts";
import type { Tracer } from "../../crds/tracing/tracer.ts";
import type { TriggerSpec } from "../../crds/trigger.ts";
import type { TriggerLimits } from "../config.ts";
import { createCronStart } from "./cron/start-cron.ts";
import { createTimers } from "./cron/timers.ts";
import type { DeliverySink } from "./delivery-log.ts";
import type { GatewayMetrics } from "./gateway-metrics.ts";
import type { PolledBots } from "./messenger/polled-bots.ts";
import { createMessenger } from "./messenger/start-messenger.ts";
import type { AdapterType } from "./triggers/reconcile-triggers.ts";
import { withSigningSecret } from "./triggers/signing-secret.ts";
import type { TriggerEvents } from "./triggers/trigger-status.ts";
import { createDeliveries } from "./webhook/deliveries.ts";
import { createWebhookStart } from "./webhook/start-webhook.ts";
import { createUnverifiedBodies } from "./webhook/unverified-bodies.ts";
import { createWebhookPaths, type WebhookPaths } from "./webhook/webhook-paths.ts";

/** The adapters of all trigger types, with what they share. */
export interface AdapterTypes {
  readonly types: Readonly<Record<TriggerSpec["type"], AdapterType>>;
  readonly webhookPaths: WebhookPaths;
  /** Closes what the adapters share, after they have ended. */
  close(): void;
}

/** Open deliveries per slot: more than may wait, so that the slots decide which tenant has too many. */
const OPEN_PER_SLOT = 8;

/** Makes the adapters: the only table of trigger types. */
export function createAdapterTypes(services: {
  clock: Clock;
  limits: TriggerLimits;
  metrics: GatewayMetrics;
  events: TriggerEvents;
  deliveryLog: DeliverySink;
  tracer: Tracer | undefined;
  polledBots: PolledBots;
  localOnly: boolean;
  /** Unique to this process. */
  instance: string;
  /** Aborted when everything in flight must end. */
  hardStop: AbortSignal;
}): AdapterTypes {
  const { clock, limits, polledBots } = services;
  const paths = createWebhookPaths();
  const timers = createTimers(clock);
  const startWebhook = createWebhookStart({
    ...services,
    paths,
    deliveries: createDeliveries({ clock }),
    bodies: createUnverifiedBodies({ clock }),
    maxOpen: limits.perTrigger * OPEN_PER_SLOT,
    maxOpenInAll: limits.inAll * OPEN_PER_SLOT,
  });
  const startMessenger = createMessenger({ polledBots });
  const startCron = createCronStart({ ...services, timers, leaseMs: limits.leaseMs });
  return {
    types: {
      webhook: { start: withSigningSecret(startWebhook), replacement: "overlap", pulls: false },
      cron: { start: withSigningSecret(startCron), replacement: "overlap", pulls: true },
      messenger: { start: withSigningSecret(startMessenger), replacement: "succession", pulls: true },
    },
    webhookPaths: paths,
    close: timers.close,
  };
}

import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import { holdLease } from "../../crds/client/hold-lease.ts";
import { triggers } from "../../crds/kinds.ts";
import type { Log } from "../../crds/log.ts";
import type { Trigger } from "../../crds/trigger.ts";
import { linkSignals } from "../../crds/waits.ts";
import type { AdapterContext } from "./adapter.ts";
import { driverFor } from "./drivers/driver-for.ts";
import { createEventRunner, type EventServices } from "./events/run-event.ts";
import { guardFor } from "./guards.ts";
import type { SecretReader } from "./triggers/secret-reader.ts";
import { readSigningSecrets } from "./triggers/signing-secret.ts";
import { createTriggerState } from "./triggers/trigger-state.ts";

/** Shared by the contexts of all triggers. */
export interface ContextServices extends EventServices {
  /** Renews Leases. */
  readonly client: ClusterClient;
  /** Unique to this process. */
  readonly instance: string;
  /** How long a Lease is valid without a renewal. */
  readonly leaseMs: number;
}

/** Makes the context of a trigger's adapter. */
export function createAdapterContext(options: {
  trigger: Trigger;
  services: ContextServices;
  /** Distinguishes this adapter from all others of the process. */
  number: number;
  secrets: SecretReader;
  report: AdapterContext["report"];
  signal: AbortSignal;
}): AdapterContext {
  const { trigger, services, number, secrets, report, signal } = options;
  const { client } = services;
  const { clock, cluster, namespace } = services.claims;
  const log = withTrigger(services.log, trigger.metadata.name);
  const state = createTriggerState({ cluster, trigger });
  const { guards = [], driverOptions, signing } = trigger.spec;
  const tokenRef = driverOptions?.tokenSecretRef;
  let leases = 0;

  return {
    trigger,
    clock,
    log,
    signal,
    run: createEventRunner(
      {
        trigger,
        guards: guards.map((guard) => guardFor(guard, { clock, log, readSecret: secrets.read })),
        driver: driverFor(trigger.spec, { clock }),
        readToken: tokenRef === undefined ? undefined : () => secrets.read(tokenRef),
        readSigningSecrets: signing && (() => readSigningSecrets(signing.secretRef, secrets.read)),
      },
      services,
    ),
    readSecret: (ref, readOptions = {}) => secrets.read(ref, { ...readOptions, signal }),
    readState: () => state.read(),
    writeState: (value) => state.write(value),
    async whileHolding(leaseName, work) {
      leases += 1;
      try {
        await holdLease({
          client,
          namespace,
          leaseName,
          // Differs from other triggers of this process, which may want the same Lease.
          identity: `${services.instance}-${number}-${leases}`,
          leaseMs: services.leaseMs,
          owner: {
            apiVersion: `${triggers.group}/${triggers.version}`,
            ...{ kind: triggers.kind, name: trigger.metadata.name, uid: trigger.metadata.uid ?? "" },
          },
          log,
          signal,
          async hold(term) {
            const linked = linkSignals(term.signal, signal);
            try {
              await work(linked.signal);
            } finally {
              linked.close();
            }
          },
        });
      } catch (error) {
        if (!signal.aborted) throw error;
        log.debug({ lease: leaseName, error }, "lease work ended with its adapter");
      }
    },
    report,
  };
}

function withTrigger(log: Log, trigger: string): Log {
  const at =
    (level: keyof Log): Log["info"] =>
    (fields, message) =>
      log[level]({ trigger, ...fields }, message);
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

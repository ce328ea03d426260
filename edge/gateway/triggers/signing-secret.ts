import type { SecretReference } from "../../../crds/schema/schema.ts";
import { WEBHOOK_SECRETS, webhookSecrets } from "../../../crds/standard-webhook.ts";
import type { AdapterContext, StartAdapter } from "../adapter.ts";
import { SecretError } from "./secret-reader.ts";
import { mayPass } from "./trigger-problem.ts";

/** One more while the first is replaced. */
const MOST_SECRETS = 2;

/**
 * Reads the secrets that sign a trigger's requests to its containers.
 *
 * @throws SecretError if they are missing or not secrets, and what `read` throws
 */
export async function readSigningSecrets(
  ref: SecretReference,
  read: (ref: SecretReference) => Promise<string>,
): Promise<readonly Buffer[]> {
  const secrets = webhookSecrets(await read(ref));
  if (secrets !== undefined && secrets.length <= MOST_SECRETS) return secrets;
  throw new SecretError(
    `Secret ${ref.name} has no signing secret under the key ${ref.key}, or more than ${MOST_SECRETS}; ` +
      `it must be ${WEBHOOK_SECRETS}`,
  );
}

/**
 * Starts an adapter only if the secrets of `spec.signing` can be read, and reports when they no longer can. Its events
 * fail then (`createEventRunner`).
 */
export function withSigningSecret(start: StartAdapter): StartAdapter {
  return async (context) => {
    const ref = context.trigger.spec.signing?.secretRef;
    if (ref === undefined) return start(context);
    let ofSecret: Parameters<AdapterContext["report"]> | undefined;
    let ofAdapter: Parameters<AdapterContext["report"]> = [undefined];
    const report = () => context.report(...(ofSecret ?? ofAdapter));

    const check = async (): Promise<void> => {
      try {
        await readSigningSecrets(ref, context.readSecret);
        ofSecret = undefined;
      } catch (error) {
        context.log.warn({ error }, "signing secret not read");
        const why = error instanceof Error ? error.message : String(error);
        ofSecret = [`spec.signing.secretRef: ${why}`, { mayPass: mayPass(error) }];
      }
      report();
    };

    await readSigningSecrets(ref, (one) => context.readSecret(one, { onChange: () => void check() }));
    return start({
      ...context,
      report(...problem) {
        ofAdapter = problem;
        report();
      },
    });
  };
}

/** A program as Prometheus finds it. */
export interface Target {
  /** The Service's name. */
  readonly job: string;
  readonly pod: string;
  /** The pod's label `app.kubernetes.io/name`, which is the name of its Deployment. */
  readonly app: string;
  /** @default "tenancy" */
  readonly namespace?: string;
  /** Undefined: nothing listens there any longer. */
  readonly url: string | undefined;
}

/** What all targets told at one moment, by the series as Prometheus names it. */
export interface Scrape {
  /** Seconds since the epoch. */
  readonly atSeconds: number;
  readonly samples: ReadonlyMap<string, number>;
}

/**
 * Reads the metrics of all targets, with the labels that a ServiceMonitor gives them.
 *
 * @param options.isWanted which metrics are kept, by their names
 */
export async function scrapeAll(
  targets: readonly Target[],
  { isWanted }: { isWanted: (name: string) => boolean },
): Promise<Scrape> {
  const atSeconds = Date.now() / 1000;
  const samples = new Map<string, number>();
  await Promise.all(
    targets.map(async ({ job, pod, app, namespace = "tenancy", url }) => {
      const own = `job="${job}",namespace="${namespace}",pod="${pod}",app_kubernetes_io_name="${app}"`;
      const text = url === undefined ? undefined : await fetch(`${url}/metrics`).then((answer) => answer.text());
      samples.set(`up{${own}}`, text === undefined ? 0 : 1);
      // https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
      for (const [, name = "", labels, value] of text?.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm) ?? []) {
        if (isWanted(name)) samples.set(`${name}{${labels === undefined ? "" : `${labels},`}${own}}`, Number(value));
      }
    }),
  );
  return { atSeconds, samples };
}

/** Of a scrape the metrics that are wanted. */
export function only(scrape: Scrape, isWanted: (name: string) => boolean): Scrape {
  const kept = [...scrape.samples].filter(([series]) => isWanted(/^\w+/.exec(series)?.[0] ?? ""));
  return { ...scrape, samples: new Map(kept) };
}

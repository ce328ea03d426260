interface Series {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Metrics as a program showed them at one moment. */
export interface MetricsText {
  /** Sum of all series of that name whose labels are as told; 0 without any. */
  sum(name: string, labels?: Readonly<Record<string, string>>): number;
}

/** Reads the Prometheus text format, https://prometheus.io/docs/instrumenting/exposition_formats/ */
export function parseMetrics(text: string): MetricsText {
  const series: Series[] = [];
  for (const line of text.split("\n")) {
    const [, name, labels = "", value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line) ?? [];
    if (name !== undefined) series.push({ name, labels: parseLabels(labels), value: Number(value) });
  }
  return {
    sum(name, labels = {}) {
      const wanted = Object.entries(labels);
      return series
        .filter((one) => one.name === name && wanted.every(([key, value]) => one.labels[key] === value))
        .reduce((total, { value }) => total + value, 0);
    },
  };
}

function parseLabels(text: string): Record<string, string> {
  return Object.fromEntries([...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, value]) => [key, value]));
}

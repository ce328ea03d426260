import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";
import { unpackDebianPackages } from "../../../scripts/cluster/images/unpack-debian-packages.ts";
import { silent } from "../../../scripts/cluster/log.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import type { Scrape } from "./scrape.ts";

/** The groups of rules of the component. */
export function readAlerts(): { groups: { name: string; rules: { alert: string; expr: string }[] }[] } {
  const file = new URL("../../../manifests/components/monitoring/alerts.yaml", import.meta.url);
  return parse(readFileSync(file, "utf8")).spec;
}

/** What is so for a while: what programs told at one moment, and for how many steps nothing changes after it. */
export interface Held {
  readonly scrape: Scrape;
  readonly steps: number;
}

/** A course of events, and which alerts it fires. */
export interface Course {
  readonly name: string;
  /** Such as `1m`. */
  readonly step: string;
  readonly stepSeconds: number;
  readonly held: readonly Held[];
  readonly fires: readonly string[];
}

/**
 * Has Debian's Prometheus evaluate the rules over each course, which begins at the epoch, and read the board's queries.
 *
 * @throws Error with what it says where other alerts fire in a course, at any time of it, than are told
 */
export async function testRules(courses: readonly Course[]): Promise<void> {
  const packages = await unpackDebianPackages(["prometheus"], { name: "prometheus", log: silent });
  const folder = mkdtempSync(join(tmpdir(), "tenancy-rules-"));
  try {
    writeFileSync(join(folder, "rules.json"), JSON.stringify(readAlerts()));
    const files = courses.map((course, index) => {
      const file = join(folder, `test-${index}.json`);
      writeFileSync(file, JSON.stringify(testFile(course)));
      return file;
    });
    const promtool = join(packages, "usr/bin/promtool");
    await runCommand(promtool, ["test", "rules", ...files], { folder });
    // There is no other way to have it read an expression.
    const recorded = boardQueries().map((expr, index) => ({ record: `board:${index}`, expr }));
    writeFileSync(join(folder, "board.json"), JSON.stringify({ groups: [{ name: "board", rules: recorded }] }));
    await runCommand(promtool, ["check", "rules", "board.json"], { folder });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The queries of the board, as Grafana sends them. */
function boardQueries(): string[] {
  const file = new URL("../../../manifests/components/monitoring/board.json", import.meta.url);
  const { panels } = JSON.parse(readFileSync(file, "utf8")) as { panels: { targets?: { expr: string }[] }[] };
  return panels
    .flatMap(({ targets = [] }) => targets)
    .map(({ expr }) => expr.replaceAll("$__rate_interval", "1m").replaceAll("$namespace", "tenancy"));
}

/** https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/ */
function testFile({ name, step, stepSeconds, held, fires }: Course) {
  const steps = held.reduce((sum, one) => sum + one.steps, 0);
  const end = `${(steps - 1) * stepSeconds}s`;
  return {
    rule_files: ["rules.json"],
    evaluation_interval: step,
    tests: [
      {
        ...{ name, interval: step },
        input_series: inputSeries(held, stepSeconds),
        promql_expr_test: [
          {
            expr: `group by (alertname) (count_over_time(ALERTS{alertstate="firing"}[${end}]))`,
            eval_time: end,
            exp_samples: fires.map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })),
          },
        ],
      },
    ],
  };
}

function inputSeries(held: readonly Held[], stepSeconds: number) {
  const all = new Set(held.flatMap(({ scrape }) => [...scrape.samples.keys()]));
  return [...all].map((series) => {
    let at = 0;
    const values = held.map(({ scrape, steps }) => {
      const value = scrape.samples.get(series);
      // The moment of the scrape is this step: a time that a program tells is as far from it as it was.
      const told = value !== undefined && isTime(series) ? value - scrape.atSeconds + at * stepSeconds : value;
      at += steps;
      if (told === undefined) return steps === 1 ? "_" : `_x${steps}`;
      return steps === 1 ? `${told}` : `${told}+0x${steps - 1}`;
    });
    return { series, values: values.join(" ") };
  });
}

function isTime(series: string): boolean {
  return /^\w+_timestamp_seconds\b/.test(series);
}

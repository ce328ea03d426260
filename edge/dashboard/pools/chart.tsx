import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { timeRange } from "./pool-minutes.ts";

type PoolHistory = ApiTypes["PoolHistory"];

const HEIGHT_PX = 180;

/** A pool's last hour: ready pods, and below them hits, misses and refills. */
export default function Chart({ history }: { history: PoolHistory }) {
  const { since, stepSeconds, ready, lowest, warming, hits, misses, refilled } = history;
  const from = Date.parse(since) / 1000;
  const times = ready.map((_, step) => from + step * stepSeconds);
  return (
    <div class="charts">
      <Series
        title="Pods"
        times={times}
        lines={[
          { label: "ready", values: ready, color: "--ok" },
          { label: "fewest ready", values: lowest, color: "--muted", isDashed: true },
          { label: "starting", values: warming, color: "--warn" },
        ]}
      />
      <Series
        title={`In ${stepSeconds} s`}
        times={times}
        lines={[
          { label: "hits", values: hits, color: "--accent" },
          { label: "misses", values: misses, color: "--bad" },
          { label: "refilled", values: refilled, color: "--ok", isDashed: true },
        ]}
      />
    </div>
  );
}

interface Line {
  readonly label: string;
  readonly values: readonly number[];
  /** The name of a custom property. */
  readonly color: string;
  readonly isDashed?: boolean;
}

function Series({ title, times, lines }: { title: string; times: readonly number[]; lines: readonly Line[] }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);

  useEffect(() => {
    const { current } = box;
    if (current === null) return;
    // A canvas cannot use custom properties: each is resolved at drawing time, in the current theme.
    const probe = current.appendChild(document.createElement("i"));
    const color = (name: string): string => {
      probe.style.color = `var(${name})`;
      return getComputedStyle(probe).color;
    };
    const axis = {
      stroke: () => color("--muted"),
      grid: { stroke: () => color("--line"), width: 1 },
      ticks: { show: false },
    };
    const made = new uPlot(
      {
        width: current.clientWidth,
        height: HEIGHT_PX,
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: { range: (_, first, last) => timeRange(first, last) },
          // A whole number, so that the highest value has a grid line.
          y: { range: (_, __, most) => [0, Math.max(1, Math.ceil(most * 1.05))] },
        },
        axes: [
          { ...axis, values: (_, times_) => times_.map(clockWords), incrs: [60, 120, 300, 600, 900, 1800] },
          { ...axis, size: 40, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] },
        ],
        series: [
          {},
          ...lines.map(({ label, color: name, isDashed }) => ({
            label,
            stroke: () => color(name),
            width: 1.5,
            points: { show: false },
            ...(isDashed === true && { dash: [4, 4] }),
            ...(uPlot.paths.stepped !== undefined && { paths: uPlot.paths.stepped({ align: 1 }) }),
          })),
        ],
      },
      dataOf(times, lines),
      current,
    );
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: current.clientWidth, height: HEIGHT_PX }));
    resized.observe(current);
    const redraw = (): void => made.redraw(false);
    const themed = new MutationObserver(redraw);
    themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", redraw);
    return () => {
      resized.disconnect();
      themed.disconnect();
      dark.removeEventListener("change", redraw);
      made.destroy();
      probe.remove();
    };
  }, []);
  useEffect(() => plot.current?.setData(dataOf(times, lines)), [times, lines]);

  return (
    <figure>
      <figcaption>
        {title}:{" "}
        {lines.map(({ label, color, isDashed }) => (
          <span key={label} class="key">
            <svg viewBox="0 0 16 4" width="16" height="4" aria-hidden="true">
              <line
                x1="0"
                x2="16"
                y1="2"
                y2="2"
                style={{ stroke: `var(${color})` }}
                stroke-width="2"
                stroke-dasharray={isDashed === true ? "4 3" : undefined}
              />
            </svg>{" "}
            {label}{" "}
          </span>
        ))}
      </figcaption>
      {/* The numbers are in the table below. */}
      <div ref={box} style={{ height: `${HEIGHT_PX}px` }} aria-hidden="true" />
    </figure>
  );
}

function dataOf(times: readonly number[], lines: readonly Line[]): uPlot.AlignedData {
  return [[...times], ...lines.map(({ values }) => [...values])];
}

function clockWords(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

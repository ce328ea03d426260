import type { MeasuredProgram } from "./measured-program.ts";
import type { ProgramUsage } from "./program-usage.ts";

/** What one of our programs says that it has used since its start, finer than the ticks of /proc. */
export async function programMetricsUsage(program: MeasuredProgram): Promise<ProgramUsage> {
  const metrics = await program.metrics();
  return {
    cpuMs: metrics.sum("process_cpu_seconds_total") * 1000,
    rssMb: metrics.sum("process_resident_memory_bytes") / 2 ** 20,
  };
}

// npm run dashboard: bundles the page that the edge serves into dist/dashboard.json.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { DashboardAssets } from "../edge/api/dashboard.ts";
import { bundleDashboard } from "./start/bundle-dashboard.ts";

const path = await bundleDashboard(join(import.meta.dirname, ".."));
const { files } = JSON.parse(readFileSync(path, "utf8")) as DashboardAssets;
for (const [name, { gzip }] of Object.entries(files)) {
  console.log(`${name} ${(Buffer.from(gzip, "base64").byteLength / 1000).toFixed(1)} kB gzip`);
}

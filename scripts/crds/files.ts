import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { definitions } from "../../crds/definitions/definition.ts";
import { workloadPage } from "./workload-page.ts";

const HEADER = "# Generated from the TypeBox schemas in crds/ by `npm run crds`: change those, not this file.\n";

/** One generated file. */
export interface GeneratedFile {
  /** Below the root, such as `crds/tenancyclaims.yaml`. */
  path: string;
  text: string;
  /** Whether the root holds another text there, or none. */
  stale: boolean;
}

/** The YAML files of the four kinds and the page of a workload's fields, compared with what is below a root. */
export async function generatedFiles(root: string): Promise<GeneratedFile[]> {
  const kinds = definitions.map((definition) => ({
    path: `crds/${definition.spec.names.plural}.yaml`,
    text: HEADER + stringify(definition, { lineWidth: 120, aliasDuplicateObjects: false }),
  }));
  const page = { path: "docs/workload.md", text: await workloadPage() };
  return Promise.all(
    [...kinds, page].map(async ({ path, text }) => {
      const present = await readFile(join(root, path), "utf8").catch(() => undefined);
      return { path, text, stale: present !== text };
    }),
  );
}

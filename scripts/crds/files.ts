import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { definitions } from "../../crds/definition.ts";

const HEADER = "# Generated from the TypeBox schemas in crds/ by `npm run crds`: change those, not this file.\n";

/** One generated file. */
export interface CrdFile {
  /** Name without folder, such as `tenancyclaims.yaml`. */
  name: string;
  text: string;
  /** Whether the folder holds another text, or none. */
  stale: boolean;
}

/** The YAML files of the four kinds, compared with what a folder holds. */
export function crdFiles(folder: string): Promise<CrdFile[]> {
  return Promise.all(
    definitions.map(async (definition) => {
      const name = `${definition.spec.names.plural}.yaml`;
      const text = HEADER + stringify(definition, { lineWidth: 120, aliasDuplicateObjects: false });
      const present = await readFile(join(folder, name), "utf8").catch(() => undefined);
      return { name, text, stale: present !== text };
    }),
  );
}

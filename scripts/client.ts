// npm run client: writes edge/client/operations.ts, the types of the REST API, and builds the client's npm package into
// dist/client, for `npm pack` or `npm publish` there.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { OpenApiDocument } from "../edge/api/openapi/document.ts";
import { type ApiServices, apiRoutes } from "../edge/api/routes.ts";
import { buildClientPackage } from "./client/build-package.ts";
import { operationTypes } from "./client/operation-types.ts";

const root = join(import.meta.dirname, "..");

// No route is called except that of the document, so none needs what it works with.
const nothing = { asksForKey: true, cache: {}, most: {}, clock: { now: () => 0 } } as unknown as ApiServices;
const route = apiRoutes(nothing).find(({ path }) => path === "/api/v1/openapi.json");
const response = await route?.handle(new Request("http://localhost") as never, {});
if (response === undefined) throw new Error("Cannot find the route of the API's document");
await writeFile(join(root, "edge/client/operations.ts"), operationTypes((await response.json()) as OpenApiDocument));
await buildClientPackage(root, join(root, "dist/client"));
console.log("edge/client/operations.ts and dist/client written");

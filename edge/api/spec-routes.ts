import { isAlreadyExists, isConflict, isNotFound } from "../../crds/client/api-error.ts";
import type { Cluster, Deletion } from "../../crds/client/cluster.ts";
import type { KubernetesObject } from "../../crds/kubernetes.ts";
import { quote } from "../../crds/quote.ts";
import type { Resource } from "../../crds/resource.ts";
import { platformOnly, serviceView } from "../access/route-access.ts";
import { HttpError } from "../http/http-error.ts";
import { type PathRule, pathParam, queryFlag } from "../http/parameters.ts";
import { readSpecBody } from "../http/read-json.ts";
import { jsonResponse, versionHeader } from "../http/response.ts";
import type { RoutedRequest } from "../http/router.ts";
import { type ApiRoute, flagSchema } from "./api-route.ts";
import { doneSchema, specBodySchema } from "./openapi/schemas.ts";

/** An object that a person describes by a name and a spec. */
interface SpecObject extends KubernetesObject {
  spec: object;
}

/** A kind of such objects and its REST API. */
export interface SpecKind<T extends SpecObject> {
  readonly resource: Resource<T>;
  /** Its name in messages, such as `pool`. */
  readonly noun: "workload" | "pool" | "trigger";
  /** Path of the collection, such as `/api/v1/pools`. */
  readonly path: string;
  /** The path parameter that names one object. */
  readonly parameter: "name" | "id";
  readonly nameRule: PathRule;
  readonly schema: "Workload" | "Pool" | "Trigger";
  /** Effects of PUT besides replacing the spec. */
  readonly onReplaced?: string;
  /** Validates a spec; returns the problems. */
  readonly problemsOf: (spec: unknown) => readonly string[];
  /** Shows an object as the REST API does. */
  readonly show: (object: T) => { readonly name: string };
  /** Finalizers of a new object. @default none */
  readonly finalizers?: string[];
  /** The refusal of a name whose object is being deleted. @default that of a name that is taken */
  readonly terminating?: (name: string) => HttpError;
}

const dryRunSchema = flagSchema(
  "Whether only to validate: the response is the same, including the cluster's own checks, and nothing is written.",
);
const REPLACES =
  "With `If-Match` the response is 409 if the spec no longer has that ETag; without it the last write wins.";

/** All, one, create and replace: each is a live call, so that what was written elsewhere a moment ago shows. */
export function specRoutes<T extends SpecObject>(
  kind: SpecKind<T>,
  { cluster, namespace }: { cluster: Cluster; namespace: string },
): ApiRoute[] {
  const { resource, noun, path, parameter, nameRule, schema, show, problemsOf } = kind;
  const one = `${path}/:${parameter}`;
  const body = specBodySchema(`${schema}Spec`);
  const shown = (object: T, status = 200): Response =>
    jsonResponse(show(object), { status, headers: { etag: specTag(object) } });

  return [
    {
      method: "GET",
      path,
      access: serviceView,
      summary: `All ${noun}s`,
      answer: [schema],
      tells: ["x-tenancy-version"],
      errors: [503],
      async handle() {
        const { items, resourceVersion } = await cluster(resource).list();
        return jsonResponse(items.map(show).sort(byName), { headers: versionHeader(resourceVersion) });
      },
    },
    {
      method: "GET",
      path: one,
      access: serviceView,
      summary: `One ${noun}`,
      answer: schema,
      tells: ["etag"],
      errors: [404, 503],
      handle: async (request) => shown(await readObject(kind, pathParam(request, parameter, nameRule), { cluster })),
    },
    {
      method: "POST",
      path,
      access: platformOnly,
      summary: `Create a ${noun}`,
      query: { dryRun: dryRunSchema },
      body,
      status: 201,
      answer: schema,
      tells: ["etag"],
      errors: [408, 409, 413, 503],
      async handle(request) {
        const dryRun = queryFlag(request, "dryRun");
        const { name, spec } = await readSpecBody<T["spec"]>(request, problemsOf);
        if (name === undefined) throw new HttpError(400, "body.name: is required");
        if (!nameRule.accepts(name)) throw new HttpError(400, `body.name: ${nameRule.says}, got ${quote(name)}`);
        request.audit?.about({ [noun]: name });
        const { finalizers } = kind;
        const metadata = { name, namespace, ...(finalizers !== undefined && { finalizers }) };
        try {
          return shown(await cluster(resource).create({ metadata, spec } as T, { dryRun }), 201);
        } catch (error) {
          throw isAlreadyExists(error) ? await nameTaken(name) : error;
        }
      },
    },
    {
      method: "PUT",
      path: one,
      access: platformOnly,
      summary: `Replace a ${noun}'s spec`,
      description: [kind.onReplaced, REPLACES].filter((words) => words !== undefined).join(" "),
      query: { dryRun: dryRunSchema },
      takes: ["if-match"],
      body: { ...body, required: ["spec"] },
      answer: schema,
      tells: ["etag"],
      errors: [404, 408, 409, 413, 503],
      async handle(request) {
        const name = pathParam(request, parameter, nameRule);
        const dryRun = queryFlag(request, "dryRun");
        const expected = expectedTags(request);
        const { name: given = name, spec } = await readSpecBody<T["spec"]>(request, problemsOf);
        if (given !== name) {
          throw new HttpError(
            400,
            `body.name: must be ${quote(name)} as in the path, got ${quote(given)}; names cannot change`,
          );
        }
        return shown(await replaceSpec(kind, { name, spec, expected, dryRun }, { cluster }));
      },
    },
  ];

  async function nameTaken(name: string): Promise<HttpError> {
    if (kind.terminating !== undefined) {
      const { metadata } = await readObject(kind, name, { cluster });
      if (metadata.deletionTimestamp !== undefined) return kind.terminating(name);
    }
    return new HttpError(409, `${noun} ${quote(name)} already exists; change it with PUT ${path}/${name}`);
  }
}

/** The route that deletes an object of a kind without a graceful deletion. */
export function deleteRoute<T extends SpecObject>(
  kind: SpecKind<T>,
  { cluster }: { cluster: Cluster },
  more: Pick<ApiRoute, "description"> = {},
): ApiRoute {
  return {
    method: "DELETE",
    path: `${kind.path}/:${kind.parameter}`,
    access: platformOnly,
    summary: `Delete a ${kind.noun}`,
    ...more,
    takes: ["if-match"],
    answer: doneSchema("deleted"),
    errors: [404, 409, 503],
    async handle(request) {
      await deleteObject(kind, request, { cluster });
      return jsonResponse({ status: "deleted" });
    },
  };
}

/** Reads an object from the cluster. @throws HttpError 404 that says how to create it */
export async function readObject<T extends SpecObject>(
  kind: SpecKind<T>,
  name: string,
  { cluster, signal }: { cluster: Cluster; signal?: AbortSignal },
): Promise<T> {
  try {
    return await cluster(kind.resource).named(name).get({ signal });
  } catch (error) {
    throw isNotFound(error) ? objectNotFound(kind, name) : error;
  }
}

/**
 * Deletes the object that a request names; with `If-Match` only if its spec still has that ETag.
 *
 * @returns the remaining object while finalizers hold it
 * @throws HttpError 404 if there is none, 409 if its spec has changed
 */
export async function deleteObject<T extends SpecObject>(
  kind: SpecKind<T>,
  request: RoutedRequest,
  { cluster }: { cluster: Cluster },
): Promise<T | undefined> {
  const name = pathParam(request, kind.parameter, kind.nameRule);
  const expected = expectedTags(request);
  const objects = cluster(kind.resource);
  for (let tries = 1; ; tries += 1) {
    const deletion = await (expected === undefined ? objects.named(name).delete() : deleteExpected(expected));
    switch (deletion.outcome) {
      case "deleted":
        return undefined;
      case "deleting":
        return deletion.object;
      case "notFound":
        throw objectNotFound(kind, name);
      case "conflict":
        if (tries === MAX_TRIES) throw deletion.error;
    }
  }

  async function deleteExpected(tags: readonly string[]): Promise<Deletion<T>> {
    const current = await readObject(kind, name, { cluster });
    requireTag(kind, current, tags);
    return objects.of(current).delete({ precondition: "resourceVersion" });
  }
}

/** The 404 for an object that does not exist. */
export function objectNotFound(
  { resource, noun, path }: { resource: { readonly kind: string }; noun: string; path: string },
  name: string,
): HttpError {
  return new HttpError(
    404,
    `${noun} ${quote(name)} does not exist; create it with POST ${path}, or apply a ${resource.kind} with kubectl`,
  );
}

const MAX_TRIES = 5;

/** Replaces the spec and leaves metadata and status unchanged; retries on conflicts. */
async function replaceSpec<T extends SpecObject>(
  kind: SpecKind<T>,
  change: { name: string; spec: T["spec"]; expected: readonly string[] | undefined; dryRun: boolean },
  { cluster }: { cluster: Cluster },
): Promise<T> {
  const { name, spec, expected, dryRun } = change;
  for (let tries = 1; ; tries += 1) {
    const current = await readObject(kind, name, { cluster });
    if (expected !== undefined) requireTag(kind, current, expected);
    try {
      return await cluster(kind.resource)
        .of(current)
        .replace({ ...current, spec }, { dryRun });
    } catch (error) {
      if (isNotFound(error)) throw objectNotFound(kind, name);
      if (!isConflict(error) || tries === MAX_TRIES) throw error;
    }
  }
}

/**
 * Identifies the current spec. Unlike the `resourceVersion` it does not change with the status, which changes with
 * every claim of a pool.
 */
function specTag({ metadata: { uid = "", generation = 0 } }: KubernetesObject): string {
  return `"${uid}.${generation}"`;
}

/**
 * The tags of an `If-Match` (https://www.rfc-editor.org/rfc/rfc9110#name-if-match); undefined if any matches. Weak tags
 * count: a proxy that compresses makes them weak, and they identify a spec, not bytes.
 */
function expectedTags({ headers }: RoutedRequest): string[] | undefined {
  const header = headers.get("if-match");
  if (header === null || header.trim() === "*") return undefined;
  return header.split(",").map((tag) => tag.trim().replace(/^W\//, ""));
}

function requireTag<T extends SpecObject>(kind: SpecKind<T>, current: T, expected: readonly string[]): void {
  const { name, generation = 0 } = current.metadata;
  if (expected.includes(specTag(current))) return;
  throw new HttpError(
    409,
    `${kind.noun} ${quote(name)} has changed since it was read (generation ${generation} now): read it again and repeat the change`,
  );
}

function byName(a: { name: string }, b: { name: string }): number {
  return a.name < b.name ? -1 : 1;
}

import * as v from "valibot";
import { ApiError, isNotFound } from "../../crds/client/api-error.ts";
import { secrets } from "../../crds/client/built-in-resources.ts";
import type { Cluster } from "../../crds/client/cluster.ts";
import type { Secret } from "../../crds/kubernetes.ts";
import { quote } from "../../crds/quote.ts";
import {
  type KeyRecord,
  keyEntries,
  keySecretName,
  limitsOf,
  reachProblem,
  readKeySecret,
  secretOfKey,
} from "../access/key-record.ts";
import type { KeyStore } from "../access/key-store.ts";
import { keyIdPattern, makeKeyText } from "../access/key-text.ts";
import { adminOnly } from "../access/route-access.ts";
import { HttpError } from "../http/http-error.ts";
import { type PathRule, pathParam } from "../http/parameters.ts";
import { readJson } from "../http/read-json.ts";
import { jsonResponse } from "../http/response.ts";
import type { RoutedRequest } from "../http/router.ts";
import { type ApiRoute, bodySchema } from "./api-route.ts";
import { doneSchema } from "./openapi/schemas.ts";

export interface KeyServices {
  readonly cluster: Cluster;
  /** Undefined without TENANCY_KEYS_NAMESPACE. */
  readonly keys?: KeyStore | undefined;
  /** Milliseconds since the epoch, for `expiresAt`. */
  readonly timeOfDay: () => number;
}

const PATH = "/api/v1/keys";
const ONE = `${PATH}/:id`;
const TEN_YEARS = 315_360_000;
const KEY_ID = new RegExp(keyIdPattern);
const keyIdRule: PathRule = {
  accepts: (value) => KEY_ID.test(value),
  says: "a key's id is 16 lower-case letters and digits",
};

const keyBody = v.strictObject({
  ...keyEntries,
  expiresInSeconds: v.optional(
    v.pipe(
      v.number(),
      v.integer("must be a whole number"),
      v.minValue(1, "must be at least 1"),
      v.maxValue(TEN_YEARS, `must be at most ${TEN_YEARS}`),
      v.description("How long the key is valid; by default until it is deleted."),
    ),
  ),
});
/** {@link reachProblem} as a schema. */
const reachFitsRole = {
  anyOf: [
    { required: ["tenants"], properties: { role: { const: "tenant" } } },
    { properties: { role: { const: "reader" } } },
    {
      properties: { role: { enum: ["admin", "platform"] } },
      not: { anyOf: [{ required: ["tenants"] }, { required: ["workloads"] }] },
    },
  ],
} as const;

/** `POST` and `GET /api/v1/keys`, `GET` and `DELETE /api/v1/keys/{id}`. */
export function keyRoutes({ cluster, keys, timeOfDay }: KeyServices): ApiRoute[] {
  return [
    {
      method: "POST",
      path: PATH,
      summary: "Create a key",
      description:
        "The answer is the only one with the key itself: the cluster stores its SHA-256. It works on every replica once their watch has shown it, usually within milliseconds.",
      access: adminOnly,
      body: { ...bodySchema(keyBody), allOf: [reachFitsRole] },
      status: 201,
      answer: "CreatedKey",
      errors: [404, 408, 413, 503],
      async handle(request) {
        const store = requireKeys();
        const { name, role, tenants, workloads, requestsPerSecond, expiresInSeconds } = await readJson(
          request,
          keyBody,
        );
        const given = { name, role, ...limitsOf({ tenants, workloads, requestsPerSecond }) };
        const problem = reachProblem(given);
        if (problem !== undefined) throw new HttpError(400, `body.${problem}`);
        const { text, id, digest } = makeKeyText();
        const expiresAt = expiresInSeconds && new Date(timeOfDay() + expiresInSeconds * 1000).toISOString();
        const record = { ...given, id, createdAt: "", sha256: digest.toString("hex"), ...(expiresAt && { expiresAt }) };
        const { namespace } = store;
        const secret = await asked(store, cluster(secrets).in(namespace).create(secretOfKey(record, { namespace })));
        store.add(secret);
        request.audit?.about({ key: id });
        const { creationTimestamp: createdAt = "" } = secret.metadata;
        const answer = { ...keyResponse({ ...record, createdAt }), key: text };
        return jsonResponse(answer, { status: 201, headers: { "cache-control": "no-store" } });
      },
    },
    {
      method: "GET",
      path: PATH,
      summary: "All keys",
      description:
        "Sorted by id, without the keys themselves, from the replica's watch. An expired key stays until it is deleted.",
      access: adminOnly,
      answer: ["Key"],
      errors: [404, 503],
      handle: () => jsonResponse(requireKeys().list().map(keyResponse)),
    },
    {
      method: "GET",
      path: ONE,
      summary: "One key",
      description: "Without the key itself; read from the cluster.",
      access: adminOnly,
      answer: "Key",
      errors: [404, 503],
      async handle(request) {
        const { secret } = await find(request);
        const read = readKeySecret(secret);
        if (typeof read === "string")
          throw new HttpError(
            404,
            `Secret ${secret.metadata.name} in namespace ${secret.metadata.namespace} is no key: ${read}`,
          );
        return jsonResponse(keyResponse(read));
      },
    },
    {
      method: "DELETE",
      path: ONE,
      summary: "Delete a key",
      description:
        "The key works no more: on the replica that answers at once, on the others once their watch has shown it. Streams and WebSockets that it has opened end.",
      access: adminOnly,
      answer: doneSchema("deleted", "id"),
      errors: [404, 503],
      async handle(request) {
        const { id, store, secret } = await find(request);
        const { outcome, error } = await asked(store, cluster(secrets).in(store.namespace).of(secret).delete());
        if (outcome === "notFound" || outcome === "conflict") throw missing(id, error);
        store.end(secret);
        return jsonResponse({ status: "deleted", id });
      },
    },
  ];

  function requireKeys(): KeyStore {
    if (keys !== undefined) return keys;
    throw new HttpError(
      404,
      "this server has no keys besides TENANCY_API_KEY: set TENANCY_KEYS_NAMESPACE to a namespace for them",
    );
  }

  async function find(request: RoutedRequest): Promise<{ id: string; store: KeyStore; secret: Secret }> {
    const store = requireKeys();
    const id = pathParam(request, "id", keyIdRule);
    const secret = await asked(store, cluster(secrets).in(store.namespace).named(keySecretName(id)).find());
    if (secret === undefined) throw missing(id);
    return { id, store, secret };
  }
}

function missing(id: string, cause?: ApiError): HttpError {
  return new HttpError(404, `key ${quote(id)} does not exist`, { cause });
}

/**
 * Waits for a call to the cluster.
 *
 * @throws HttpError 503 that says what to apply, if the namespace or a right is missing
 */
async function asked<T>({ namespace }: KeyStore, call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (cause) {
    // Not the refusal of a quota or of an admission policy.
    if (cause instanceof ApiError && cause.status === 403 && /cannot \w+ resource/.test(cause.message))
      throw new HttpError(503, `the edge may not use Secrets in namespace ${namespace}: apply manifests/keys`, {
        cause,
      });
    if (isNotFound(cause))
      throw new HttpError(503, `namespace ${namespace} of the keys does not exist: apply manifests/keys`, { cause });
    throw cause;
  }
}

type KeyResponse = Omit<KeyRecord, "sha256">;

function keyResponse(record: KeyRecord): KeyResponse {
  const { id, name, role, tenants, workloads, requestsPerSecond, createdAt, expiresAt } = record;
  const limits = limitsOf({ tenants, workloads, requestsPerSecond });
  return { id, name, role, ...limits, createdAt, ...(expiresAt !== undefined && { expiresAt }) };
}

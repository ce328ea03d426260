// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { isDestroyable, isOpen, retry } from "../../../edge/dashboard/claims/claim.ts";

const test = suite("dashboard/acts on a claim");

const realFetch = globalThis.fetch;
test.after.each(() => {
  globalThis.fetch = realFetch;
});

/** Answers the claim's detail, and returns what is asked for by then. */
function edgeWith(detail: object | undefined): string[] {
  const asked: string[] = [];
  globalThis.fetch = (async (path: string, { method, body }: RequestInit = {}) => {
    asked.push(`${method} ${path}${typeof body === "string" ? ` ${body}` : ""}`);
    if (method === "POST") return Response.json({ source: "cold" }, { status: 201 });
    return detail === undefined ? Response.json({ error: "not now" }, { status: 503 }) : Response.json(detail);
  }) as typeof fetch;
  return asked;
}

const key = { tenantId: "alice", workloadRef: "notes" };
const read = "GET /api/v1/tenants/alice/claims/notes";

test("retry asks for the files that the claim asks for at this moment", async () => {
  for (const [detail, resume] of [
    [{ resume: true }, true],
    [{ resume: false }, false],
    [{ resume: true, resumeVersion: "0123456789abcdef" }, { version: "0123456789abcdef" }],
  ] as const) {
    const asked = edgeWith(detail);
    assert.is(await retry(key), "alice has an instance of notes, source cold.");
    const body = JSON.stringify({ workload: "notes", resume });
    assert.equal(asked, [read, `POST /api/v1/tenants/alice/claim ${body}`]);
  }
});

test("retry asks for nothing while it is not known what the claim asks for", async () => {
  const asked = edgeWith(undefined);
  const problem = await retry(key).then(
    () => undefined,
    (error: Error) => error.message,
  );
  assert.is(problem, "not now");
  assert.equal(asked, [read]);
});

test("a claim is destroyed while it is used or starts, not while its files are being saved", () => {
  const phases = ["Pending", "Active", "Releasing", "Released", "ReleaseFailed", "Error"] as const;
  const of = (instanceId: object) => phases.filter((phase) => isDestroyable({ phase, ...instanceId }));
  assert.equal(of({ instanceId: "inst-a" }), ["Pending", "Active"]);
  assert.equal(of({}), []);
  assert.equal(
    phases.filter((phase) => isOpen({ phase })),
    ["Error"],
    "a claim that has failed can be made anew with other files",
  );
  assert.ok(isOpen(undefined));
});

test.run();

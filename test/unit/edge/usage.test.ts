// @runtimes bun node deno
import * as assert from "uvu/assert";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { partsOfId, type SnapshotRecord, type UsageRecord } from "../../../crds/usage/usage-record.ts";
import type { UsageStore } from "../../../crds/usage/usage-store.ts";
import type { Actor } from "../../../edge/access/actor.ts";
import { toCsv } from "../../../edge/api/usage/csv.ts";
import { sumUsage } from "../../../edge/api/usage/sum-usage.ts";
import { HttpError } from "../../../edge/http/http-error.ts";
import { eventually } from "../../eventually.ts";
import { call } from "../snapshots/store-contract.ts";
import type { ServedStore } from "../snapshots/store-server.ts";
import { volumeSuite } from "../snapshots/volume-suite.ts";
import { type UsedBy, usageLines } from "../usage/usage-lines.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

interface Context {
  edge: TestEdge;
  /** Records sessions, in a batch for each hour. */
  record(sessions: readonly UsedBy[]): Promise<void>;
}

const test = volumeSuite<Context>("GET /api/v1/usage");
const NOVEMBER = "from=2026-11-01&to=2026-12-01";

test.before.each((context) => {
  const { served, store } = context;
  let batches = 0;
  context.edge = testEdge({ store, usage: served.usage });
  context.edge.cluster.addSnapshots();
  context.record = async (sessions) => {
    for (const line of usageLines(sessions).flatMap((lines) => lines.trimEnd().split("\n"))) {
      const { hour } = partsOfId(JSON.parse(line) as UsageRecord);
      await served.usage.append({ hour, name: `a-${++batches}`, lines: `${line}\n` }, call);
    }
  };
});

interface Sum {
  readonly tenantId?: string;
  readonly workload?: string;
  readonly day?: string;
  readonly sessions: number;
  readonly seconds: number;
  readonly snapshotByteHours: number;
}

async function sumsOf(edge: TestEdge, query = ""): Promise<Sum[]> {
  return (await edge.call(`GET /api/v1/usage?${NOVEMBER}${query}`)).json as Sum[];
}

const sessions: UsedBy[] = [
  { tenantId: "bob", from: "2026-11-30T23:30:00Z", seconds: 600, source: "cold" },
  { tenantId: "alice", from: "2026-11-28T23:59:00Z", seconds: 120.5 },
  { tenantId: "alice", workload: "other", from: "2026-11-29T10:00:00Z", seconds: 3600, end: null },
  { tenantId: "carol", from: "2026-12-01T00:00:00Z", seconds: 60 },
];

/** Two hours of archives on one day, found twice, and another on the next. */
async function addSnapshots(usage: UsageStore): Promise<void> {
  const recordOf = (from: string, to: string, byteHours: number): SnapshotRecord => ({
    ...{ id: `snapshot:alice:app/${from}`, kind: "snapshot", tenantId: "alice", workload: "app" },
    ...{ from: `${from}:00:00.000Z`, to: `${to}:00:00.000Z`, byteHours },
  });
  const found = [
    recordOf("2026-11-29T10", "2026-11-29T12", 2000),
    recordOf("2026-11-29T10", "2026-11-29T12", 2400),
    recordOf("2026-11-30T10", "2026-11-30T11", 1000),
  ];
  for (const [index, record] of found.entries()) {
    const { hour } = partsOfId(record);
    await usage.append({ hour, name: `s-${index}`, lines: `${JSON.stringify(record)}\n` }, call);
  }
}

test("sums are by tenant, workload or day; a session that goes on has no end yet", async ({ edge, record, served }) => {
  await record(sessions);
  const alice = {
    sessions: 1,
    seconds: 3720.5,
    vcpuSeconds: 7441,
    mibSeconds: 372_050,
    snapshotByteHours: 3000,
    sources: { pool: 1 },
  };
  const bob = {
    sessions: 1,
    seconds: 600,
    vcpuSeconds: 1200,
    mibSeconds: 60_000,
    snapshotByteHours: 0,
    sources: { cold: 1 },
  };
  await addSnapshots(served.usage);
  assert.equal(await sumsOf(edge), [
    { tenantId: "alice", ...alice },
    { tenantId: "bob", ...bob },
  ]);
  assert.equal(
    (await sumsOf(edge, "&by=day")).map(({ day, seconds, snapshotByteHours }) => [day, seconds, snapshotByteHours]),
    [
      ["2026-11-28", 60, 0],
      ["2026-11-29", 3660.5, 2000],
      ["2026-11-30", 600, 1000],
    ],
  );
  const ofAlice = await sumsOf(edge, "&by=workload&tenant=alice");
  assert.equal(
    ofAlice.map(({ workload, sessions: ended }) => [workload, ended]),
    [
      ["app", 1],
      ["other", 0],
    ],
  );
});

test("a key of some workloads sees what these used", async ({ store, served, record }) => {
  await record(sessions);
  const { signal: ended } = new AbortController();
  const reader = { kind: "key", id: "r", ref: "r-1", role: "reader", tenants: undefined, ended } as const;
  const keys = { actorOf: () => ({ ...reader, workloads: ["oth*"] }), actorWithRef: () => undefined };
  const edge = testEdge({ store, usage: served.usage, apiKey: "root", keys });
  edge.cluster.addSnapshots();
  const call = async (by: string) =>
    (await edge.call(`GET /api/v1/usage?${NOVEMBER}&by=${by}`, { headers: { authorization: "Bearer tk" } })).json;
  assert.equal(
    ((await call("tenant")) as Sum[]).map(({ tenantId, seconds }) => [tenantId, seconds]),
    [["alice", 3600]],
  );
  assert.equal(
    ((await call("workload")) as Sum[]).map(({ workload }) => workload),
    ["other"],
  );
});

test("a record that was written twice counts once, whatever the two say", async ({ edge, record }) => {
  const [, session] = sessions;
  assert.ok(session);
  for (const seconds of [120.5, 125, 120.5]) await record([{ ...session, seconds }]);
  await record([{ ...session, seconds: 130, end: null }]);
  assert.equal(
    (await sumsOf(edge)).map(({ sessions: ended, seconds }) => [ended, seconds]),
    [[1, 120.5]],
  );
});

test("pages have each sum once, in order", async ({ edge, record }) => {
  const names = Array.from({ length: 23 }, (_, index) => `t${(index * 7) % 23}`);
  await record(names.map((tenantId) => ({ tenantId, from: "2026-11-29T10:00:00Z", seconds: 1 })));
  const seen: string[] = [];
  for (let after = ""; ; ) {
    const { json, headers } = await edge.call(`GET /api/v1/usage?${NOVEMBER}&limit=5${after}`);
    const sums = json as Sum[];
    assert.ok(sums.length <= 5);
    seen.push(...sums.map(({ tenantId = "" }) => tenantId));
    const next = headers.get("x-tenancy-next");
    if (next === null) break;
    after = `&after=${next}`;
  }
  assert.equal(seen, [...names].sort());
});

test("sums are sorted by what was used, the greatest first, and a page goes on after a sum", async ({
  edge,
  record,
}) => {
  const seconds = { ann: 5, bob: 50, cy: 7, dan: 50, eve: 1 };
  await record(
    Object.entries(seconds).map(([tenantId, used]) => ({ tenantId, from: "2026-11-29T10:00:00Z", seconds: used })),
  );
  const ask = async (query: string) => {
    const { json, headers } = await edge.call(`GET /api/v1/usage?${NOVEMBER}&${query}`);
    return [(json as Sum[]).map(({ tenantId }) => tenantId), headers.get("x-tenancy-next")];
  };
  assert.equal(await ask("order=vcpuSeconds"), [["bob", "dan", "cy", "ann", "eve"], null]);
  assert.equal(await ask("order=seconds&limit=2"), [["bob", "dan"], "dan"]);
  assert.equal(await ask("order=seconds&limit=2&after=dan"), [["cy", "ann"], "ann"]);
  assert.equal(await ask("order=seconds&limit=2&after=ann"), [["eve"], null]);
  assert.equal(await ask("order=seconds&after=nemo"), [[], null]);
  assert.is((await edge.call("GET /api/v1/usage?order=tenant")).status, 400);
});

test("a label that is called tenantId makes a record no other tenant's", async () => {
  const [line = ""] = usageLines([{ tenantId: "alice", from: "2026-11-29T10:00:00Z", seconds: 1 }]);
  const labelled = line.replace('"labels":{}', '"labels":{"tenantId":"bob"}').trimEnd();
  assert.match(labelled, '"tenantId":"bob"');
  async function* read() {
    yield [labelled, '{"tenantId":5}', "no JSON"];
  }
  const keysOf = async (id: string) =>
    (await sumUsage(read(), { by: "tenant", isMeant: (tenant) => tenant === id, limit: 9 })).sums.map(({ key }) => key);
  assert.equal(await keysOf("alice"), ["alice"]);
  assert.equal(await keysOf("bob"), []);
});

test("sums can be of some tenants, or of those whose ids begin with a text", async ({ edge, record }) => {
  const ids = ["acme", "acme-1", "bob", "carol"];
  await record(ids.map((tenantId) => ({ tenantId, from: "2026-11-29T10:00:00Z", seconds: 1 })));
  const ask = async (query: string) => (await sumsOf(edge, query)).map(({ tenantId }) => tenantId);
  assert.equal(await ask("&prefix=acme"), ["acme", "acme-1"]);
  assert.equal(await ask("&prefix=acme&order=seconds&limit=1"), ["acme"]);
  assert.equal(await ask("&tenants=bob,nemo,acme"), ["acme", "bob"]);
  assert.equal(await ask("&tenants=bob,acme&tenant=bob"), ["bob"]);
  assert.equal(await ask("&tenants=acme&tenant=bob"), []);
});

test("more sums than memory has room for are not sorted", async () => {
  const lines = usageLines(
    Array.from({ length: 100_001 }, (_, at) => ({ tenantId: `t${at}`, from: "2026-11-29T10:00:00Z", seconds: 1 })),
  ).flatMap((text) => text.trimEnd().split("\n"));
  async function* read() {
    yield lines;
  }
  await sumUsage(read(), { by: "tenant", limit: 10 });
  try {
    await sumUsage(read(), { by: "tenant", order: "seconds", limit: 10 });
    assert.unreachable();
  } catch (error) {
    assert.instance(error, HttpError);
    assert.match((error as HttpError).message, "query.order: over 100000 sums cannot be sorted: ask for fewer days");
  }
});

test("a table for spreadsheets comes by format or Accept", async ({ edge, record, served }) => {
  await record(sessions);
  await addSnapshots(served.usage);
  const lines = [
    "tenantId,sessions,seconds,vcpuSeconds,mibSeconds,pool,pool+data,cold,cold+data,existing,snapshotByteHours",
    "alice,1,3720.5,7441,372050,1,0,0,0,0,3000",
    "bob,1,600,1200,60000,0,0,1,0,0,0",
  ];
  const text = `${lines.join("\r\n")}\r\n`;
  const byFormat = await edge.call(`GET /api/v1/usage?${NOVEMBER}&format=csv`);
  assert.is(byFormat.text, text);
  assert.is(byFormat.headers.get("content-type"), "text/csv; charset=utf-8");
  const byAccept = await edge.call(`GET /api/v1/usage?${NOVEMBER}`, { headers: { accept: "text/csv" } });
  assert.is(byAccept.text, text);
});

test("no cell is a formula", () => {
  const rows = [["=1+1", "+1", "-1", "@a", "\tx", 'a"b', "a,b", "a=b", -5]];
  assert.is(toCsv(rows), `'=1+1,'+1,'-1,'@a,'\tx,"a""b","a,b",a=b,-5\r\n`);
});

test("a range is whole hours, not empty, and at most 92 days", async ({ edge }) => {
  const status = async (query: string) => (await edge.call(`GET /api/v1/usage?${query}`)).status;
  for (const query of [
    ...["from=2026-11-29&to=2026-11-29", "from=2026-11-30&to=2026-11-29", "from=2026-01-01&to=2026-12-01"],
    ...["from=2026-02-30", "from=2026-11-29T10:30:00Z", "from=yesterday", "to=2026-11-29T10:00:00%2B01:00"],
    ...["by=label", "format=xml", "after=-", "limit=0", "tenant=../x"],
  ])
    assert.is(await status(query), 400, query);
  for (const query of ["", NOVEMBER, "from=2026-11-29T10:00:00Z&to=2026-11-29T11"]) assert.is(await status(query), 200);
});

test("without a store the answer says that nothing is recorded", async ({ store, served }) => {
  const edge = testEdge({ store, usage: served.usage });
  const { status, json } = await edge.call("GET /api/v1/usage");
  assert.is(status, 404);
  assert.match((json as { error: string }).error, "no usage is recorded");
});

test("a sum of one tenant parses no other's records, and others have their turns while a sum is read", async () => {
  const [own, ...others] = ["alice", ...Array.from({ length: 60 }, (_, index) => `bob${index}`)];
  const lines = [own, ...others].map((tenantId = "") =>
    usageLines(Array.from({ length: 200 }, () => ({ tenantId, from: "2026-11-29T10:00:00Z", seconds: 1 }))),
  );
  const all = lines.flat().map((line) => line.trimEnd());
  async function* read() {
    yield all;
  }
  const { parse } = JSON;
  let parsed = 0;
  let turns = 0;
  let next = setImmediate(function tick() {
    turns += 1;
    next = setImmediate(tick);
  });
  JSON.parse = (...given) => {
    parsed += 1;
    return parse(...given);
  };
  try {
    const { sums } = await sumUsage(read(), { by: "tenant", isMeant: (id) => id === "alice", limit: 10 });
    assert.equal(
      sums.map(({ key, sessions: ended }) => [key, ended]),
      [["alice", 200]],
    );
    assert.is(parsed, 200);
    const before = turns;
    await sumUsage(read(), { by: "tenant", limit: 10 });
    assert.ok(turns - before > 10, String(turns - before));
  } finally {
    JSON.parse = parse;
    clearImmediate(next);
  }
});

const ended = new AbortController().signal;
/** The text of a key is the tenants that it reaches, after its number. */
const keys = {
  actorOf: (text: string): Actor => {
    const tenants = [text.replace(/^\d+/, "")];
    return { kind: "key", id: text, ref: text, role: "tenant", tenants, ended };
  },
  actorWithRef: () => undefined,
};

/** An edge whose reads of records wait until they are told to go on. */
function slowEdge({ store, served }: { store: SnapshotStore; served: ServedStore }) {
  const gates: (() => void)[] = [];
  const usage = {
    ...served.usage,
    async *read() {
      await new Promise<void>((open) => gates.push(open));
      yield [];
    },
  };
  const edge = testEdge({ store, usage, keys, apiKey: "root" });
  edge.cluster.addSnapshots();
  const ask = async (query = "", key = "root") => {
    const answer = await edge.call(`GET /api/v1/usage${query}`, { headers: { authorization: `Bearer ${key}` } });
    if (answer.status !== 200) assert.match(answer.headers.get("retry-after") ?? "", /^[1-9]/);
    return answer.status;
  };
  return { ask, gates };
}

test("more requests than may read at once are refused, and others are served after that", async (context) => {
  const { ask, gates } = slowEdge(context);
  const asked = Array.from({ length: 9 }, () => ask());
  assert.is(await Promise.race(asked), 503);
  await eventually(() => gates.length === 8);
  for (const open of gates) open();
  assert.equal((await Promise.all(asked)).sort(), [...Array(8).fill(200), 503]);
});

test("a tenant reads once at a time, whatever keys it has, and takes no other tenant's place", async (context) => {
  const { ask, gates } = slowEdge(context);
  const first = ask("?tenant=a", "1a");
  await eventually(() => gates.length === 1);
  assert.equal([await ask("?tenant=a", "1a"), await ask("?tenant=a", "2a")], [429, 429]);
  const ofMany = ask("?tenant=m1", "1m*");
  await eventually(() => gates.length === 2);
  assert.is(await ask("?tenant=m2", "1m*"), 429);
  const operators = ask("?tenant=a");
  await eventually(() => gates.length === 3);
  const others = ["b", "c", "d", "e", "f"].map((name) => ask(`?tenant=${name}`, `1${name}`));
  assert.is(await Promise.race(others), 503);
  await eventually(() => gates.length === 7);
  for (const open of gates) open();
  assert.equal(await Promise.all([first, ofMany, operators]), [200, 200, 200]);
  assert.equal((await Promise.all(others)).sort(), [200, 200, 200, 200, 503]);
});

test.run();

// @runtimes bun node deno
import * as assert from "uvu/assert";
import { partsOfId, type UsageRecord } from "../../../crds/usage/usage-record.ts";
import { toCsv } from "../../../edge/api/usage/csv.ts";
import { call } from "../snapshots/store-contract.ts";
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

test("sums are by tenant, workload or day; a session that goes on has no end yet", async ({ edge, record }) => {
  await record(sessions);
  const alice = { sessions: 1, seconds: 3720.5, vcpuSeconds: 7441, mibSeconds: 372_050, sources: { pool: 1 } };
  const bob = { sessions: 1, seconds: 600, vcpuSeconds: 1200, mibSeconds: 60_000, sources: { cold: 1 } };
  assert.equal(await sumsOf(edge), [
    { tenantId: "alice", ...alice },
    { tenantId: "bob", ...bob },
  ]);
  assert.equal(
    (await sumsOf(edge, "&by=day")).map(({ day, seconds }) => [day, seconds]),
    [
      ["2026-11-28", 60],
      ["2026-11-29", 3660.5],
      ["2026-11-30", 600],
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

test("a table for spreadsheets comes by format or Accept", async ({ edge, record }) => {
  await record(sessions);
  const lines = [
    "tenantId,sessions,seconds,vcpuSeconds,mibSeconds,pool,pool+data,cold,cold+data,existing",
    "alice,1,3720.5,7441,372050,1,0,0,0,0",
    "bob,1,600,1200,60000,0,0,1,0,0",
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

test("more requests than may read at once are refused, and others are served after that", async (context) => {
  const { store, served } = context;
  const gates: (() => void)[] = [];
  const usage = {
    ...served.usage,
    async *read() {
      await new Promise<void>((open) => gates.push(open));
      yield [];
    },
  };
  const edge = testEdge({ store, usage });
  edge.cluster.addSnapshots();
  const ask = async (query = "") => (await edge.call(`GET /api/v1/usage${query}`)).status;
  const ofTenants = ["a", "b", "c"].map((tenant) => ask(`?tenant=${tenant}`));
  assert.is(await Promise.race(ofTenants), 503);
  const others = [ask(), ask(), ask()];
  assert.is(await Promise.race(others), 503);
  for (const open of gates) open();
  assert.equal((await Promise.all([...ofTenants, ...others])).sort(), [200, 200, 200, 200, 503, 503]);
});

test.run();

// @runtimes node bun
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createS3Credentials } from "../../../crds/snapshots/s3/s3-credentials.ts";
import { StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { errorOf } from "../../error-of.ts";
import { type ManualClock, manualClock } from "../manual-clock.ts";

interface Context {
  folder: string;
  clock: ManualClock;
  server: Server;
  url: string;
  asked: { path: string; body: string; authorization: string | undefined }[];
  answer: () => { status: number; body: string } | Promise<{ status: number; body: string }>;
}

const test = suite<Context>("createS3Credentials");
const MINUTE_MS = 60_000;

test.before.each(async (context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-credentials-"));
  context.clock = manualClock();
  context.asked = [];
  context.server = createServer(async (request: IncomingMessage, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    context.asked.push({ path: request.url ?? "", body, authorization: request.headers.authorization });
    const answer = await context.answer();
    response.writeHead(answer.status).end(answer.body);
  });
  await new Promise<void>((resolve) => context.server.listen(0, "127.0.0.1", resolve));
  context.url = `http://127.0.0.1:${(context.server.address() as AddressInfo).port}`;
});
test.after.each(async ({ folder, server }) => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  rmSync(folder, { recursive: true });
});

/** What a container is lent, for an hour. */
function lending({ clock, asked }: Context, id = (): string => `key-${asked.length}`) {
  const expiration = new Date(clock.now() + 60 * MINUTE_MS).toISOString();
  const body = { AccessKeyId: id(), SecretAccessKey: "secret", Token: "token", Expiration: expiration };
  return { status: 200, body: JSON.stringify(body) };
}

function ofContainer(context: Context) {
  const env = { AWS_CONTAINER_CREDENTIALS_FULL_URI: `${context.url}/v1/credentials` };
  return createS3Credentials({ env, region: "eu-central-1", clock: context.clock });
}

test("takes keys as they are", async () => {
  const env = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret", AWS_SESSION_TOKEN: "session" };
  const give = createS3Credentials({ env, region: "x" });
  assert.equal(await give(), { accessKeyId: "id", secretAccessKey: "secret", sessionToken: "session" });
});

test("says what is missing", () => {
  const of = (env: Record<string, string>) => () => createS3Credentials({ env, region: "x" });
  assert.throws(of({}), /set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY/);
  assert.throws(of({ AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "" }), /AWS_SECRET_ACCESS_KEY is unset/);
  assert.throws(of({ AWS_SECRET_ACCESS_KEY: "secret" }), /AWS_ACCESS_KEY_ID is unset/);
  for (const uri of ["http://example.com/x", "file:///x", "x"]) {
    assert.throws(of({ AWS_CONTAINER_CREDENTIALS_FULL_URI: uri }), /must be https, or on this machine/);
  }
});

test("exchanges a web identity, whose token is read each time", async (context) => {
  const { folder, url, clock, asked } = context;
  const tokenFile = join(folder, "token");
  const expiration = () => new Date(clock.now() + 60 * MINUTE_MS).toISOString();
  context.answer = () => ({
    status: 200,
    body: `<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>id-${asked.length}</AccessKeyId><SecretAccessKey>se/cr+et</SecretAccessKey><SessionToken>session</SessionToken><Expiration>${expiration()}</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
  });
  const env = {
    ...{ AWS_WEB_IDENTITY_TOKEN_FILE: tokenFile, AWS_ROLE_ARN: "arn:aws:iam::1:role/r" },
    AWS_ENDPOINT_URL_STS: url,
  };
  const give = createS3Credentials({ env, region: "eu-central-1", clock });
  assert.match(String(await errorOf(give())), /Cannot read a token: ENOENT/);
  writeFileSync(tokenFile, "first\n");
  const { accessKeyId, secretAccessKey, sessionToken } = await give();
  assert.equal([accessKeyId, secretAccessKey, sessionToken], ["id-1", "se/cr+et", "session"]);
  const form = new URLSearchParams(asked[0]?.body);
  assert.equal(
    ["Action", "RoleArn", "WebIdentityToken"].map((name) => form.get(name)),
    ["AssumeRoleWithWebIdentity", "arn:aws:iam::1:role/r", "first"],
  );
  writeFileSync(tokenFile, "second");
  await clock.pass(60 * MINUTE_MS);
  assert.is((await give()).accessKeyId, "id-2");
  assert.is(new URLSearchParams(asked[1]?.body).get("WebIdentityToken"), "second");
});

test("asks a container's server with its token", async (context) => {
  const file = join(context.folder, "token");
  writeFileSync(file, "the token");
  context.answer = () => lending(context);
  const env = {
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${context.url}/v1/credentials`,
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file,
  };
  const give = createS3Credentials({ env, region: "eu-central-1", clock: context.clock });
  assert.is((await give()).accessKeyId, "key-1");
  assert.equal([context.asked[0]?.path, context.asked[0]?.authorization], ["/v1/credentials", "the token"]);
});

test("asks once for all, and again some minutes before the end without letting anybody wait", async (context) => {
  const { clock, asked } = context;
  context.answer = () => lending(context);
  const give = ofContainer(context);
  const first = await Promise.all(Array.from({ length: 20 }, () => give()));
  assert.equal([asked.length, new Set(first).size], [1, 1]);
  await clock.pass(54 * MINUTE_MS);
  assert.is((await give()).accessKeyId, "key-1");
  assert.is(asked.length, 1);
  let open!: () => void;
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  context.answer = () => gate.then(() => lending(context));
  await clock.pass(2 * MINUTE_MS);
  assert.equal([(await give()).accessKeyId, (await give()).accessKeyId], ["key-1", "key-1"]);
  open();
  while ((await give()).accessKeyId === "key-1") await new Promise((resolve) => setImmediate(resolve));
  assert.is(asked.length, 2);
});

test("goes on with what it has when they cannot be renewed, and fails when they have ended", async (context) => {
  const { clock } = context;
  context.answer = () => lending(context);
  const give = ofContainer(context);
  await give();
  context.answer = () => ({ status: 500, body: "down" });
  await clock.pass(56 * MINUTE_MS);
  assert.is((await give()).accessKeyId, "key-1");
  await clock.pass(4 * MINUTE_MS);
  const error = await errorOf(give());
  assert.ok(error instanceof StoreError && error.isTransient, String(error));
  assert.match(error.message, /responded 500 down/);
  context.answer = () => ({ status: 403, body: "<Error><Message>not this role</Message></Error>" });
  const denied = await errorOf(give());
  assert.ok(denied instanceof StoreError && !denied.isTransient && /not this role/.test(denied.message));
});

test("asks anew for those that were refused, once for all who had them", async (context) => {
  context.answer = () => lending(context);
  const give = ofContainer(context);
  const refused = await give();
  const fresh = await Promise.all([give(refused), give(refused), give(refused)]);
  assert.equal([...new Set(fresh.map(({ accessKeyId }) => accessKeyId))], ["key-2"]);
  // Those who come later with the old ones have no new ones made.
  assert.is((await give(refused)).accessKeyId, "key-2");
  assert.is(context.asked.length, 2);
});

test.run();

import type { Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freePort } from "../../scripts/cluster/process/free-port.ts";
import { type OidcProvider, startOidcProvider } from "../oidc/provider.ts";
import type { EdgeProcess } from "../unit/edge/edge-process.ts";
import { openPage, UNAUTHORIZED } from "./browser.ts";
import { KEY, type Stage, sharedKeyedStage } from "./stage.ts";

const test = suite("browser/login-oidc");
let stage: Stage;
let provider: OidcProvider;
let edge: EdgeProcess;
let host: string;

test.before(async () => {
  stage = await sharedKeyedStage();
  const port = await freePort();
  const redirectUrl = `http://127.0.0.1:${port}/api/v1/session/oidc/callback`;
  provider = await startOidcProvider(
    { alice: { groups: ["customers"], tenants: ["alice"] }, olga: { groups: ["ops"] }, mallory: {} },
    { redirectUris: [redirectUrl] },
  );
  host = new URL(provider.issuer).host;
  edge = await stage.startEdge({
    TENANCY_API_KEY: KEY,
    TENANCY_WS_REQUIRE_KEY: "true",
    TENANCY_LISTEN: `127.0.0.1:${port}`,
    TENANCY_OIDC_ISSUER: provider.issuer,
    TENANCY_OIDC_ROLES: "ops=admin,customers=tenant",
    TENANCY_OIDC_TENANT_CLAIM: "tenants",
    TENANCY_OIDC_CLIENT_ID: "dashboard",
    TENANCY_OIDC_CLIENT_SECRET: "secret of the dashboard",
    TENANCY_OIDC_REDIRECT_URL: redirectUrl,
  });
});
test.after(async () => {
  await provider?.stop();
});

/** Opens a page of the dashboard, and follows the login up to the provider's last button. */
async function signIn(account: string, path: string) {
  const opened = await openPage(stage.browser);
  const { page, expect } = opened;
  expect(UNAUTHORIZED);
  // The provider's own pages.
  expect(/localhost|favicon|^asked another origin/);
  // They ask for a font of another site.
  const isOurs = ({ hostname }: URL) => ["localhost", "127.0.0.1"].includes(hostname);
  await page.route(
    (url) => !isOurs(url),
    (route) => route.fulfill({ contentType: "text/css", body: "" }),
  );
  await page.goto(`${edge.url}${path}`);
  await page.getByRole("button", { name: `Sign in with ${host}` }).click();
  await page.getByPlaceholder("Enter any login").fill(account);
  await page.getByPlaceholder("and password").fill(account);
  await page.getByRole("button", { name: "Sign-in" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
  return opened;
}

async function statusOf(page: Page, path: string): Promise<unknown> {
  return await page.evaluate(`fetch("/api/v1${path}").then(({ status }) => status)`);
}

test("a person signs in at the provider, continues on the same page, and logs out", async () => {
  const { page, expect, assertAccessible, close } = await signIn("olga", "/dashboard/claims?q=ali");
  await page.getByText("live").waitFor();
  await page.getByRole("row", { name: /alice/ }).waitFor();
  assert.is(page.url(), `${edge.url}/dashboard/claims?q=ali`);
  const [cookie, ...others] = await page.context().cookies(edge.url);
  assert.equal(others, []);
  assert.equal([cookie?.name, cookie?.httpOnly, cookie?.sameSite], ["tenancy-session", true, "Strict"]);
  const kept = `JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, location.href])`;
  assert.not.match(String(await page.evaluate(kept)), /code=|tenancy-session/);
  expect(/status of 404/);
  assert.is(await statusOf(page, "/keys"), 404, "there is no namespace of keys, which only admins are told");
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByRole("button", { name: `Sign in with ${host}` }).waitFor();
  await assertAccessible();
  assert.equal(await page.context().cookies(edge.url), []);
  assert.is(await statusOf(page, "/tenants"), 401);
  await close();
});

test("a person of one tenant sees that tenant only", async () => {
  const { page, expect, close } = await signIn("alice", "/dashboard/claims/alice/hello");
  // Lists of all tenants, and their events.
  expect(/status of 40[34]|response code: 403/);
  await page.waitForURL(`${edge.url}/dashboard/claims/alice/hello`);
  await page.getByRole("button", { name: "Log out" }).waitFor();
  assert.is(await statusOf(page, "/tenants/alice"), 200);
  assert.is(await statusOf(page, "/tenants/bob"), 404);
  assert.is(await statusOf(page, "/tenants"), 403);
  assert.is(await statusOf(page, "/claims?tenant=bob"), 404);
  await close();
});

test("a person without a role gets no session", async () => {
  const { page, expect, close } = await signIn("mallory", "/dashboard/claims");
  expect(/status of 403/);
  await page.getByText("the token has no role here").waitFor();
  assert.not.ok((await page.context().cookies(edge.url)).some(({ name }) => name === "tenancy-session"));
  await close();
});

test.run();

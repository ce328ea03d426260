import type { Clock } from "../../../crds/client/clock.ts";
import { askAgent } from "./ask-agent.ts";
import type { Driver, DriverCall } from "./driver.ts";
import { greetAgent } from "./greet-agent.ts";
import { createSocketDriver } from "./socket-driver.ts";

/**
 * Who speaks, for a server that trusts the gateway instead of a token, as OpenClaw does with `gateway.auth.mode: "trusted-proxy"`. Such a
 * server wants a client's address: this one is of a range that is nobody's. https://www.rfc-editor.org/rfc/rfc5737
 */
const PROXY_HEADERS = { "x-forwarded-user": "tenancy", "x-forwarded-for": "203.0.113.1", "x-forwarded-proto": "http" };

/** Speaks `driver-b`, the Gateway protocol of OpenClaw (docs/drivers.md). */
export function createAgentControlDriver(deps: { clock: Clock }): Driver {
  return createSocketDriver({ path: "/", headers, greet: greetAgent, ask: askAgent }, deps);
}

function headers({ token }: DriverCall): Record<string, string> {
  return token === undefined ? PROXY_HEADERS : {};
}

import { signal } from "@preact/signals";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { access } from "./access.ts";
import { CallError, call, isLoginAsked, logins } from "./call.ts";

type Session = ApiTypes["Session"];

const AGAIN_MS = 2000;

/** Why the logout failed; the browser still has its session. */
export const logOutProblem = signal<string | undefined>(undefined);

/** Undefined until the edge has answered. */
export const session = signal<Session | undefined>(undefined);

/** Why the session cannot be read, so that the page cannot start. */
export const sessionProblem = signal<Error | undefined>(undefined);

/** Checks whether the page may call the API, and shows the login if not. */
export async function checkSession(): Promise<void> {
  const login = logins.value;
  try {
    const found = await call<Session>("GET", "/session");
    if (logins.value === login) take(found);
  } catch (error) {
    if (!(error instanceof CallError)) throw error;
    // Later the banner reports that the edge cannot be reached, and the connection checks again.
    if (session.value !== undefined) return;
    sessionProblem.value = error;
    setTimeout(() => void checkSession(), AGAIN_MS);
  }
}

function take(found: Session): void {
  session.value = found;
  sessionProblem.value = undefined;
  if (found.asksForKey && !found.active) {
    isLoginAsked.value = true;
    return;
  }
  // Where no key is required, everybody may do everything.
  const next = { role: found.role ?? "admin", tenants: found.tenants };
  const before = access.peek();
  if (before === undefined) access.value = next;
  // The page holds what another person may not see.
  else if (JSON.stringify(before) !== JSON.stringify(next)) location.reload();
}

/** @throws CallError with the API's message if the key is wrong */
export async function logIn(key: string): Promise<void> {
  take(await call<Session>("POST", "/session", { body: { key } }));
  isLoginAsked.value = false;
  logins.value += 1;
}

export async function logOut(): Promise<void> {
  try {
    await call("DELETE", "/session");
  } catch (error) {
    if (!(error instanceof CallError)) throw error;
    logOutProblem.value = `Logout failed: ${error.message}`;
    return;
  }
  // Drop everything that the page showed.
  location.assign("/");
}

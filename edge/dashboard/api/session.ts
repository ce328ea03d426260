import { signal } from "@preact/signals";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { CallError, call, isLoginAsked, logins } from "./call.ts";

type Session = ApiTypes["Session"];

/** Why the logout failed; the browser still has its session. */
export const logOutProblem = signal<string | undefined>(undefined);

/** Undefined until the edge has answered. */
export const session = signal<Session | undefined>(undefined);

/** Checks whether the page may call the API, and shows the login if not. */
export async function checkSession(): Promise<void> {
  const login = logins.value;
  try {
    const found = await call<Session>("GET", "/session");
    if (logins.value !== login) return;
    session.value = found;
    if (found.asksForKey && !found.active) isLoginAsked.value = true;
  } catch (error) {
    // The banner already reports that the edge cannot be reached.
    if (!(error instanceof CallError)) throw error;
  }
}

/** @throws CallError with the API's message if the key is wrong */
export async function logIn(key: string): Promise<void> {
  session.value = await call<Session>("POST", "/session", { body: { key } });
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

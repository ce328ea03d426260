import { signal } from "@preact/signals";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { CallError, call, isLoginAsked } from "./call.ts";

type Session = ApiTypes["Session"];

/** Goes up with each login: what was refused before is read again. */
export const logins = signal(0);

/** Why a logout has failed: the browser still has its session then. */
export const logOutProblem = signal<string | undefined>(undefined);

/** Undefined until the edge has said so. */
export const session = signal<Session | undefined>(undefined);

/** Asks whether the page may call the API, and shows the login where it may not. */
export async function checkSession(): Promise<void> {
  try {
    session.value = await call<Session>("GET", "/session");
    if (session.value.asksForKey && !session.value.active) isLoginAsked.value = true;
  } catch (error) {
    // The banner says so while the edge cannot be reached.
    if (!(error instanceof CallError)) throw error;
  }
}

/** @throws CallError in the API's words where the key is wrong */
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
    logOutProblem.value = `not logged out: ${error.message}`;
    return;
  }
  // Nothing of what was shown stays.
  location.assign("/");
}

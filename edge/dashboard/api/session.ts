import { signal } from "@preact/signals";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { CallError, call, isLoginAsked } from "./call.ts";

type Session = ApiTypes["Session"];

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
}

export async function logOut(): Promise<void> {
  await call("DELETE", "/session");
  // Nothing of what was shown stays.
  location.assign("/");
}

import { createMessenger } from "./create-messenger.ts";

/** Serves a trigger of type `messenger`; all of this process's know of each other. */
export const startMessenger = createMessenger();

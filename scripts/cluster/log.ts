/** Receives a line about the current step, for a person who waits. */
export type Log = (message: string) => void;

/** A log that prints nothing. */
export const silent: Log = () => undefined;

/** Receives one line about what is being done, for a person who waits. */
export type Log = (message: string) => void;

/** A log that says nothing. */
export const silent: Log = () => undefined;

/** What one call gives a model at most, in bytes of JSON; the names and numbers around it take up the rest of 64 KiB. */
export const MOST_BYTES = 60 * 1024;

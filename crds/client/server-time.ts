import { type Clock, steadyClock, systemClock } from "./clock.ts";

/** The API server's time, from the `date` headers of its answers. */
export interface ServerTime {
  /** Milliseconds since the epoch, to within a second. Before the first answer it is this machine's time. */
  now(): number;
  /**
   * Uses the date of an answer.
   *
   * @param date the header, in whole seconds (RFC 9110, 6.6.1)
   * @param sentAt when its request was sent, by the steady clock
   */
  heard(date: string | undefined, sentAt: number): void;
}

const RESOLUTION_MS = 1000;

/**
 * Times of objects come from the API server, so compare them with its clock: this machine's clock can be wrong.
 */
export function createServerTime(
  options: { clock?: Pick<Clock, "now">; steady?: Pick<Clock, "now"> } = {},
): ServerTime {
  const { clock = systemClock, steady = steadyClock } = options;
  // How far the server's clock is ahead of the steady clock. Each answer narrows the range.
  let ahead: { readonly least: number; readonly most: number } | undefined;

  return {
    now() {
      if (ahead === undefined) return clock.now();
      // A server dates an answer when it begins to send it, which can be long after the request.
      return steady.now() + ahead.least + Math.min(ahead.most - ahead.least, RESOLUTION_MS) / 2;
    },
    heard(date, sentAt) {
      const second = Date.parse(date ?? "");
      if (Number.isNaN(second)) return;
      const heard = { least: second - steady.now(), most: second + RESOLUTION_MS - sentAt };
      const least = Math.max(heard.least, ahead?.least ?? Number.NEGATIVE_INFINITY);
      const most = Math.min(heard.most, ahead?.most ?? Number.POSITIVE_INFINITY);
      // If the ranges do not overlap, a clock was set, or another server answered.
      ahead = least <= most ? { least, most } : heard;
    },
  };
}

/** The known state of something that runs or should run. */
export interface Known {
  readonly phase: string;
  /** The API's reason. */
  readonly reason?: string | undefined;
  /** Of an instance: whether its health check passes. */
  readonly ready?: boolean | undefined;
  /** Of an instance. */
  readonly restarts?: number | undefined;
}

/** A state as people read it. */
export interface Health {
  readonly is: "bad" | "warn" | "ok" | "plain";
  /** An adjective, such as `Ready`. */
  readonly word: string;
  /** Detail that the word omits. */
  readonly why?: string;
}

const phases: Readonly<Record<string, Health>> = {
  Active: { is: "ok", word: "Active" },
  Ready: { is: "ok", word: "Ready" },
  Running: { is: "ok", word: "Ready" },
  Built: { is: "ok", word: "Built" },
  Pending: { is: "warn", word: "Pending" },
  Creating: { is: "warn", word: "Creating" },
  Filling: { is: "warn", word: "Filling" },
  Building: { is: "warn", word: "Building" },
  Degraded: { is: "warn", word: "Degraded" },
  Unknown: { is: "warn", word: "Unknown" },
  Releasing: { is: "plain", word: "Releasing" },
  Released: { is: "plain", word: "Released" },
  Terminating: { is: "plain", word: "Terminating" },
  Succeeded: { is: "plain", word: "Ended" },
  Error: { is: "bad", word: "Failed" },
  Failed: { is: "bad", word: "Failed" },
  ReleaseFailed: { is: "bad", word: "Not saved" },
};

const crashing: Health = { is: "bad", word: "Crash looping" };
const unavailable: Health = { is: "bad", word: "Image unavailable" };
/** Reasons that say more than an ongoing phase. */
const reasons: Readonly<Record<string, Health>> = {
  CrashLooping: crashing,
  CrashLoopBackOff: crashing,
  ImagePullFailed: unavailable,
  ImagePullBackOff: unavailable,
  ErrImagePull: unavailable,
  ErrImageNeverPull: unavailable,
  InvalidImageName: unavailable,
  OOMKilled: { is: "bad", word: "Out of memory" },
  Unschedulable: { is: "warn", word: "Unschedulable" },
};

/**
 * Derives the state to show. The phase alone is not enough: it may be `Active` or `Running` while the program keeps
 * crashing.
 */
export function healthOf({ phase, reason, ready, restarts = 0 }: Known): Health {
  const base = phases[phase] ?? { is: "plain", word: phase };
  const why = reason !== undefined && { why: reason };
  if (base.is === "bad" || base.is === "plain") return { ...base, ...why };
  const known = reason === undefined ? undefined : reasons[reason];
  if (known !== undefined) return known;
  if (base.is === "warn") return { ...base, ...why };
  if (reason !== undefined) return { is: "bad", word: "Failing", why: reason };
  if (ready === false) return { is: "warn", word: "Not ready" };
  if (restarts > 0) return { is: "warn", word: "Restarted", why: restarts === 1 ? "once" : `${restarts} times` };
  return base;
}

/** A phase is a shape and a word, so that it can be told without its colour. */
const looks: Readonly<Record<string, { shape: string; is: "ok" | "warn" | "bad" | "plain" }>> = {
  Active: { shape: "●", is: "ok" },
  Ready: { shape: "●", is: "ok" },
  Running: { shape: "●", is: "ok" },
  Pending: { shape: "◐", is: "warn" },
  Creating: { shape: "◐", is: "warn" },
  Filling: { shape: "◐", is: "warn" },
  Building: { shape: "◐", is: "warn" },
  Degraded: { shape: "▲", is: "warn" },
  Releasing: { shape: "■", is: "plain" },
  Released: { shape: "□", is: "plain" },
  Terminating: { shape: "■", is: "plain" },
  Succeeded: { shape: "□", is: "plain" },
  Error: { shape: "▲", is: "bad" },
  Failed: { shape: "▲", is: "bad" },
  ReleaseFailed: { shape: "▲", is: "bad" },
  Unknown: { shape: "?", is: "warn" },
};

/** The phase of anything. */
export function Phase({ is }: { is: string }) {
  const look = looks[is] ?? { shape: "○", is: "plain" };
  return (
    <span class={`phase is-${look.is}`}>
      <span aria-hidden="true">{look.shape}</span> {is}
    </span>
  );
}

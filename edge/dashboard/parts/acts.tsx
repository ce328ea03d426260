import { useEffect, useRef, useState } from "preact/hooks";
import { CallError } from "../api/call.ts";
import { useKey } from "./keys.ts";
import { Problem } from "./problem.tsx";

/** Runs the acts of a page one at a time, with the outcome of the last one. */
export interface Acts {
  /** The running act. */
  readonly busy: string | undefined;
  readonly error: Error | undefined;
  readonly outcome: string | undefined;
  /** Seconds until the edge accepts another request. */
  readonly waitSeconds: number;
  /** Does nothing while another act runs; an act that returns undefined was cancelled. */
  run(name: string, act: () => Promise<string | undefined>): void;
}

export function useActs(): Acts {
  const [state, setState] = useState<{ busy?: string; error?: Error; outcome?: string }>({});
  const [waitSeconds, setWaitSeconds] = useState(0);
  const isBusy = useRef(false);
  useEffect(() => {
    if (waitSeconds === 0) return;
    const timer = setTimeout(() => setWaitSeconds(waitSeconds - 1), 1000);
    return () => clearTimeout(timer);
  }, [waitSeconds]);
  return {
    busy: state.busy,
    error: state.error,
    outcome: state.outcome,
    waitSeconds,
    run(name, act) {
      // This render may be older than a second key press.
      if (isBusy.current) return;
      isBusy.current = true;
      setState({ busy: name });
      act()
        .then(
          (outcome) => setState(outcome === undefined ? {} : { outcome }),
          (error: Error) => {
            setState({ error });
            if (error instanceof CallError) setWaitSeconds(Math.ceil((error.retryAfterMs ?? 0) / 1000));
          },
        )
        .finally(() => {
          isBusy.current = false;
        });
    },
  };
}

/** A button for an act; `keys` trigger it too. */
export function Act(props: {
  acts: Acts;
  verb: string;
  act: () => Promise<string | undefined>;
  keys?: string;
  class?: string;
  disabled?: boolean;
}) {
  const { acts, verb, act, keys, disabled = false } = props;
  const isOff = disabled || acts.busy !== undefined || acts.waitSeconds > 0;
  const run = (): void => {
    if (!isOff) acts.run(verb, act);
  };
  return (
    <>
      {keys !== undefined && <Key keys={keys} label={verb} act={run} />}
      {/* A disabled button would lose the focus of a screen reader. */}
      <button
        type="button"
        class={props.class}
        aria-disabled={isOff ? "true" : undefined}
        aria-keyshortcuts={keys}
        title={keys === undefined ? undefined : `${verb} (${keys})`}
        onClick={run}
      >
        {acts.busy === verb ? `${verb} …` : acts.waitSeconds > 0 ? `${verb} in ${acts.waitSeconds} s` : verb}
      </button>
    </>
  );
}

/** The button, and the key `r`, that read a page's list again. */
export function Refresh({ acts, again }: { acts: Acts; again(): void }) {
  return <Act {...{ acts, verb: "Refresh", keys: "r" }} act={async () => void again()} />;
}

/** Outcome of the last act. */
export function Outcome({ acts }: { acts: Acts }) {
  return (
    <div role="status" class="outcome">
      {acts.outcome !== undefined && <p>{acts.outcome}</p>}
      <Problem error={acts.error} />
    </div>
  );
}

function Key({ keys, label, act }: { keys: string; label: string; act: () => void }) {
  useKey(keys, label, act);
  return null;
}

import { useState } from "preact/hooks";
import { Logs } from "../instances/logs.tsx";

/** The log of a claim's pod; readers are few, so that it is read where something fails, or when it is asked for. */
export function PodLog({ of, isOpen }: { of: string; isOpen: boolean }) {
  const [isShown, setShown] = useState(isOpen);
  if (isShown) return <Logs name={of} />;
  return (
    <div class="acts">
      <button type="button" onClick={() => setShown(true)}>
        Show the log
      </button>
    </div>
  );
}

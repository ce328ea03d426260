import { useState } from "preact/hooks";
import { Logs } from "../instances/logs.tsx";

/** The log of a claim's pod. The edge allows few log readers, so it is read only after a failure or on request. */
export function PodLog({ of, isOpen }: { of: string; isOpen: boolean }) {
  const [isShown, setShown] = useState(isOpen);
  if (isShown) return <Logs name={of} />;
  return (
    <div class="acts">
      <button type="button" onClick={() => setShown(true)}>
        Show log
      </button>
    </div>
  );
}

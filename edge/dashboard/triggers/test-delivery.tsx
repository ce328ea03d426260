import { useState } from "preact/hooks";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { call } from "../api/call.ts";
import { Act, Outcome, useActs } from "../parts/acts.tsx";
import { confirm } from "../parts/confirm.tsx";
import { durationWords } from "../parts/time-words.ts";
import { resultLook, tenantWords } from "./deliveries.ts";

type Trigger = ApiTypes["Trigger"];

/** Sends the trigger a test event and shows the result. */
export function TestDelivery({ trigger, onEnd }: { trigger: Trigger; onEnd(): void }) {
  const { name, spec } = trigger;
  const [data, setData] = useState(() => JSON.stringify(spec.config.payload ?? {}, null, 2));
  const [words, setWords] = useState("");
  const [came, setCame] = useState<ApiTypes["TestDelivery"]>();
  const acts = useActs();
  const given = parsed(data);
  return (
    <section aria-labelledby="test">
      <h2 id="test">Test delivery</h2>
      <div class="spec">
        <div class="field">
          <label for="data">Data</label>
          <textarea
            id="data"
            class="mono"
            rows={6}
            spellcheck={false}
            aria-invalid={given.problem !== undefined}
            aria-describedby="data-problem"
            value={data}
            onInput={(event) => setData(event.currentTarget.value)}
          />
          <p id="data-problem" class="is-bad">
            {given.problem}
          </p>
        </div>
        {spec.type === "messenger" && (
          <div class="field">
            <label for="words">Message text</label>
            <input id="words" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
          </div>
        )}
        <div class="acts">
          <Act acts={acts} verb="Send" disabled={given.problem !== undefined} act={send} />
        </div>
      </div>
      <Outcome acts={acts} />
      {came !== undefined && <Came of={came} />}
    </section>
  );

  async function send(): Promise<string | undefined> {
    const isMeant = await confirm({
      title: `Send a test event to ${name}?`,
      lost: (
        <p>
          It is handled like a real event: it claims a pod of {spec.workloadRef} for{" "}
          {tenantWords(spec.tenant, given.value)} and delivers the event to it. It is marked as a test.
        </p>
      ),
      verb: "Send",
    });
    if (!isMeant) return undefined;
    setCame(undefined);
    const path = `/triggers/${encodeURIComponent(name)}/test`;
    const body = { data: given.value, ...(words !== "" && { text: words }) };
    const outcome = await call<ApiTypes["TestDelivery"]>("POST", path, { body });
    setCame(outcome);
    onEnd();
    return `Event ${outcome.id}: ${outcome.result}.`;
  }
}

function Came({ of }: { of: ApiTypes["TestDelivery"] }) {
  const { result, status, ms, contentType, body, truncated, message, reason } = of;
  return (
    <>
      <p class={`is-${resultLook(result)}`}>
        {result}
        {status !== undefined && `, status ${status}`}, {durationWords(ms)}
      </p>
      {(reason ?? message) !== undefined && <p>{reason ?? message}</p>}
      {body !== undefined && (
        <textarea
          class="printed"
          readOnly
          spellcheck={false}
          rows={Math.min(16, body.split("\n").length + 1)}
          aria-label={`Response of the container, ${contentType ?? "no content type"}`}
          value={body}
        />
      )}
      {truncated === true && <p class="muted">The response was truncated.</p>}
    </>
  );
}

function parsed(text: string): { value?: unknown; problem?: string } {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { problem: `is not JSON: ${(error as Error).message}` };
  }
}

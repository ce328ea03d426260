import { signal } from "@preact/signals";
import { Act, Outcome, useActs } from "../parts/acts.tsx";
import { Command } from "../parts/command.tsx";
import { confirm } from "../parts/confirm.tsx";
import { Facts } from "../parts/facts.tsx";
import { Problem } from "../parts/problem.tsx";
import { Sparkline } from "../parts/sparkline.tsx";
import { State } from "../parts/state.tsx";
import { Labelled } from "../spec/labelled.tsx";

const texts = ["fg", "muted", "accent", "ok", "warn", "bad"];
const surfaces = ["bg", "raised", "hover", "accent-soft", "ok-soft", "warn-soft", "bad-soft", "line", "edge"];
const states = [
  { phase: "Active" },
  { phase: "Pending" },
  { phase: "Error", reason: "ImagePullFailed" },
  { phase: "Released" },
];
const pressed = signal(true);

/** Each part of the dashboard in each of its states, as ../design.md describes them. */
export default function Parts() {
  const acts = useActs();
  return (
    <>
      <h1>
        Parts <small>of this dashboard, in each state</small>
      </h1>
      <section aria-labelledby="colours">
        <h2 id="colours">Colours</h2>
        <ul class="swatches">
          {texts.map((name) => (
            <li key={name} style={{ color: `var(--${name})` }}>
              Text {name}
            </li>
          ))}
          {surfaces.map((name) => (
            <li key={name} style={{ background: `var(--${name})` }}>
              {name}
            </li>
          ))}
        </ul>
      </section>
      <section aria-labelledby="type">
        <h2 id="type">Type</h2>
        <p style={{ fontSize: "var(--title)" }}>Title, once a page</p>
        <p style={{ fontSize: "var(--large)" }}>Large: a figure, the title of a dialog</p>
        <p>Text</p>
        <p style={{ fontSize: "var(--small)" }} class="muted">
          Small: labels, help
        </p>
        <p>
          <code>code</code> <kbd>Ctrl K</kbd> <a href="/dashboard/_design">this page</a>
        </p>
      </section>
      <section aria-labelledby="buttons">
        <h2 id="buttons">Buttons</h2>
        <div class="acts">
          <button type="button" class="primary">
            Primary
          </button>
          <button type="button">Other</button>
          <a class="button" href="/dashboard/_design">
            Leads on
          </a>
          <button
            type="button"
            class="danger"
            onClick={() =>
              void confirm({ title: "Destroy?", lost: <p>What is lost is said here.</p>, verb: "Destroy" })
            }
          >
            Loses something
          </button>
          <button
            type="button"
            aria-pressed={pressed.value}
            onClick={() => {
              pressed.value = !pressed.value;
            }}
          >
            Pressed
          </button>
          <button type="button" class="primary" aria-disabled="true">
            Primary, not yet
          </button>
          <button type="button" aria-disabled="true">
            Not yet
          </button>
          <Act acts={acts} verb="Act" act={async () => "What the act did."} />
          <Act acts={acts} verb="Act that fails" act={() => Promise.reject(new Error("Why, and what to do."))} />
        </div>
        <Outcome acts={acts} />
      </section>
      <section aria-labelledby="fields" class="spec">
        <h2 id="fields">Fields</h2>
        {["", "body.name: must have at most 63 characters"].map((problem) => (
          <Labelled
            key={problem}
            label={problem === "" ? "Name" : "Wrong name"}
            help="What it is for."
            {...{ problem }}
          >
            {(described) => <input {...described} value="hello" readOnly />}
          </Labelled>
        ))}
        <Labelled label="Choice" help="" problem={undefined}>
          {(described) => (
            <select {...described}>
              <option>none (default)</option>
            </select>
          )}
        </Labelled>
        <details class="group">
          <summary>
            <b>Group</b> <span class="muted">what it holds, while it is folded</span>
          </summary>
          <p class="muted">What the group is for.</p>
        </details>
      </section>
      <section aria-labelledby="states">
        <h2 id="states">States</h2>
        <div class="acts">
          {states.map((of) => (
            <State key={of.phase} of={of} />
          ))}
        </div>
      </section>
      <section aria-labelledby="tables">
        <h2 id="tables">Facts and tables</h2>
        <Facts
          of={[
            ["State", <State key="" of={{ phase: "Ready" }} />],
            ["Pod", "inst-alice"],
          ]}
        />
        <table>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col" class="number">
                Claims
              </th>
            </tr>
          </thead>
          <tbody>
            <tr>
              <th scope="row">hello</th>
              <td class="number">1,024</td>
            </tr>
          </tbody>
        </table>
      </section>
      <section aria-labelledby="figures">
        <h2 id="figures">Figures</h2>
        <div class="cards">
          <div class="card">
            <h3>New claims</h3>
            <strong>40 per minute</strong>
            <Sparkline values={[1, 4, 2, 8, 40]} label="New claims per minute" />
          </div>
          <div class="card">
            <h3>Ready</h3>
            <p>
              <meter min={0} max={4} value={3} aria-label="3 of 4 ready" /> 3 of 4
            </p>
          </div>
        </div>
      </section>
      <section aria-labelledby="words">
        <h2 id="words">Messages</h2>
        <Problem error={new Error("What went wrong, in the API's words.")} />
        <Command line="curl http://127.0.0.1:8080/healthz" />
        <p class="muted">What is not there, and how to make it.</p>
      </section>
    </>
  );
}

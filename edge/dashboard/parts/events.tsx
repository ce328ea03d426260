import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { Long } from "./long.tsx";
import { When } from "./when.tsx";

/**
 * The Events of an object, newest first, or why they cannot be read.
 *
 * @param props.of.events with the workload, if they are of several claims
 * @param props.above a text that the page already shows
 */
export function Events(props: {
  of: {
    readonly events?: readonly (ApiTypes["ObjectEvent"] & { readonly workloadRef?: string })[] | undefined;
    readonly eventsProblem?: string | undefined;
  };
  above?: string;
}) {
  const { above } = props;
  const { events, eventsProblem } = props.of;
  return (
    <section aria-labelledby="events">
      <h2 id="events">Events</h2>
      {eventsProblem !== undefined && <p class="is-warn">{eventsProblem}</p>}
      {events === undefined ? null : events.length === 0 ? (
        <p class="muted">No Events. The cluster deletes them after about an hour.</p>
      ) : (
        <table aria-labelledby="events">
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col">Reason</th>
              <th scope="col">Message</th>
            </tr>
          </thead>
          <tbody>
            {[...events].reverse().map(({ at, about, reason, message, count = 1, type, workloadRef }) => (
              <tr key={`${at} ${about} ${reason} ${message} ${workloadRef}`}>
                <td>
                  <When at={at} />
                </td>
                <td class={type === "Warning" ? "is-warn" : ""}>
                  {reason}
                  {count > 1 && ` × ${count}`}
                  {about === "instance" && <span class="muted"> pod</span>}
                  {workloadRef !== undefined && <div class="muted">{workloadRef}</div>}
                </td>
                <td>{message === above ? <span class="muted">as above</span> : <Long of={message} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

import { Dialog } from "../parts/dialog.tsx";
import { bindings, hasLetterKeys, letterKeys } from "../parts/keys.ts";

/** Keys that work on every page. */
const always: readonly [keys: string, label: string][] = [
  ["↑ ↓ PgUp PgDn Home End", "In a table: another row"],
  ["Enter", "In a table: open the row"],
];

/** All keys that are active now. */
export default function Help({ close }: { close(): void }) {
  // A newer binding of the same key hides the older one.
  const shown = new Map(bindings.value.map(({ keys, label }) => [keys, label]));
  return (
    <Dialog title="Keys" class="help" onCancel={close}>
      <table>
        <tbody>
          {[...shown, ...always].map(([keys, label]) => (
            <tr key={keys}>
              <th scope="row">
                <kbd>{keys.replace("Control+", "Ctrl ").replace("Escape", "Esc")}</kbd>
              </th>
              <td>{label}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <label class="check">
        <input
          type="checkbox"
          checked={hasLetterKeys.value}
          onChange={(event) => letterKeys(event.currentTarget.checked)}
        />
        <span>Enable single-letter keys</span>
      </label>
      <div class="acts">
        <button type="button" autofocus onClick={close}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

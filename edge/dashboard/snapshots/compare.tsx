import type { ApiTypes } from "../../api/openapi/schemas.ts";
import type { ClaimKey } from "../claims/claim.ts";
import { sizeWords } from "../parts/size-words.ts";
import { localTime } from "../parts/time-words.ts";
import { navigate, place } from "../route.ts";
import { digitsOf, type KnownVersion, snapshotPath } from "./acts.tsx";
import { More, useSavedPages } from "./saved-pages.tsx";
import { namedBy, SavedPath } from "./saved-path.tsx";

type SavedChange = ApiTypes["SavedChange"];
type Entry = NonNullable<SavedChange["before"]>;

/** The page's address that compares a version with another one, by default with the one before it. */
export function compareHref(to: string, from = ""): string {
  const query = new URLSearchParams({ compare: to, ...(from !== "" && { from }) });
  return `${place.value.pathname}?${query}`;
}

/** What a version has that another one has not, and the other way round. */
export function Compare(props: { of: ClaimKey; to: string; versions: readonly KnownVersion[] }) {
  const { of, to, versions } = props;
  const from = place.value.searchParams.get("from") ?? "";
  const query = new URLSearchParams({ to, ...(from !== "" && { from }) });
  const list = useSavedPages<SavedChange>(`${snapshotPath(of)}/diff?${query}`);
  const others = versions.map(digitsOf).filter((digits) => digits !== to);
  // One that a link names may be deleted: the choice still says what is asked for.
  const choices = from === "" || others.includes(from) ? others : [...others, from];
  return (
    <section aria-labelledby="changes" class="changes">
      <h2 id="changes">Changes</h2>
      <div class="filter">
        <label for="from">since</label>
        <select
          id="from"
          value={from}
          onChange={(event) => navigate(compareHref(to, event.currentTarget.value), { replace: true })}
        >
          <option value="">the version before</option>
          {choices.map((digits) => (
            <option key={digits} value={digits}>
              {digits}
              {timeOf(versions, digits)}
            </option>
          ))}
        </select>
      </div>
      <div role="status">{list.rows !== undefined && <Sum of={list.rows} hasMore={list.hasMore} />}</div>
      {list.rows !== undefined && list.rows.length > 0 && (
        <table aria-label="Changes" class="stack">
          <thead>
            <tr>
              <th scope="col">Path</th>
              <th scope="col">Change</th>
              <th scope="col" class="number">
                Before
              </th>
              <th scope="col" class="number">
                After
              </th>
            </tr>
          </thead>
          <tbody>
            {list.rows.map((change) => (
              <tr key={namedBy(change)}>
                <td>
                  <SavedPath of={change} />
                </td>
                <td>
                  <ChangeWords of={change} />
                </td>
                <td class="number" data-label="before">
                  {entryWords(change.before)}
                </td>
                <td class="number" data-label="after">
                  {entryWords(change.after)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <More of={list} />
    </section>
  );
}

function timeOf(versions: readonly KnownVersion[], digits: string): string {
  const version = versions.find((one) => digitsOf(one) === digits);
  if (version === undefined) return "";
  const { version: older, kind, names = [], createdAt } = version;
  const what = older === undefined ? ", newest" : kind === "checkpoint" ? ", checkpoint" : "";
  return `${names.map((name) => `, ${name}`).join("")}, ${localTime(Date.parse(createdAt), Date.now())}${what}`;
}

/** How many changes there are, and their size. */
function Sum({ of, hasMore }: { of: readonly SavedChange[]; hasMore: boolean }) {
  if (of.length === 0) return <p>Nothing differs but times.</p>;
  const count = (change: SavedChange["change"]): string =>
    of.filter((one) => one.change === change).length.toLocaleString();
  const written = of.reduce((sum, { after }) => sum + fileBytes(after), 0);
  const removed = of.reduce((sum, { change, before }) => sum + (change === "removed" ? fileBytes(before) : 0), 0);
  return (
    <p>
      {hasMore && `The first ${of.length.toLocaleString()} changes: `}
      {count("added")} added, {count("changed")} changed, {count("removed")} removed.{" "}
      {`The added and changed files have ${sizeWords(written)}, the removed ones had ${sizeWords(removed)}.`}
    </p>
  );
}

/** A hard link is another name of a file that is counted already. */
function fileBytes(entry: Entry | undefined): number {
  return entry?.type === "file" ? entry.sizeBytes : 0;
}

function entryWords(entry: Entry | undefined): string | undefined {
  if (entry === undefined) return undefined;
  const { type, sizeBytes } = entry;
  return type === "file" || type === "hardlink" ? sizeWords(sizeBytes) : type === "directory" ? "folder" : "link";
}

function ChangeWords({ of: { change, before, after } }: { of: SavedChange }) {
  if (before === undefined || after === undefined) return <>{change}</>;
  const owner = ({ uid, gid }: Entry): string => `${uid}:${gid}`;
  const words = [
    before.type !== after.type && "type",
    before.sha256 !== after.sha256 && "content",
    before.target !== after.target && "target",
    before.mode !== after.mode && `mode ${before.mode} → ${after.mode}`,
    owner(before) !== owner(after) && `owner ${owner(before)} → ${owner(after)}`,
  ].filter(Boolean);
  return (
    <>
      {change}
      {words.length > 0 && `: ${words.join(", ")}`}
    </>
  );
}

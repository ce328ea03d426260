import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useLoad } from "../api/load.ts";
import { Outcome, useActs } from "../parts/acts.tsx";
import { confirm } from "../parts/confirm.tsx";
import { useKey } from "../parts/keys.ts";
import { Problem, Reading } from "../parts/problem.tsx";
import { leaveGuard } from "../route.ts";
import { Download } from "./download.tsx";
import { type FilePath, nameOf } from "./file-path.ts";
import { hasChanged, readText, type TextFile, writeText } from "./text-file.ts";

/** Edits a small text file of an instance. */
export function Editor(props: {
  instance: string;
  path: FilePath;
  heading: RefObject<HTMLHeadingElement | null>;
  children: ComponentChildren;
}) {
  const { instance, path, heading, children } = props;
  const at = { instance, of: path };
  const read = useLoad(`${instance} ${path}`, (signal) => readText(at, { signal }));
  const [edited, setEdited] = useState<{ base: TextFile; text: string }>();
  const acts = useActs();
  const ended = useRef(new AbortController());
  const base = edited?.base ?? read.value;
  const text = edited?.text ?? base?.text ?? "";
  const isDirty = base !== undefined && text !== base.text;
  const name = nameOf(path);

  const dirty = useRef(false);
  dirty.current = isDirty;
  useEffect(() => {
    const { current } = ended;
    const end = leaveGuard.set(() => {
      if (!dirty.current) return undefined;
      const lost = <p>What you have changed is not saved.</p>;
      return confirm({ title: `Leave ${name} without saving?`, lost, verb: "Leave" });
    });
    return () => {
      end();
      current.abort();
    };
  }, []);
  useKey("Control+s", "Save the file", () => {
    if (isDirty) acts.run("Save", save);
  });

  const isOff = !isDirty || acts.busy !== undefined;
  return (
    <section aria-labelledby="file">
      <h2 id="file" tabIndex={-1} ref={heading}>
        {children}
      </h2>
      {base !== undefined && (
        <>
          <textarea
            {...{ class: "mono edit", "aria-labelledby": "file", value: text }}
            {...{ spellcheck: false, autocomplete: "off", autocapitalize: "off", wrap: "off" }}
            onInput={({ currentTarget }) => setEdited({ base, text: currentTarget.value })}
          />
          <div class="acts">
            <button
              {...{ type: "button", class: "primary", "aria-disabled": isOff, title: "Save (Ctrl S)" }}
              aria-keyshortcuts="Control+s"
              onClick={() => {
                if (!isOff) acts.run("Save", save);
              }}
            >
              {acts.busy === "Save" ? "Save …" : "Save"}
            </button>
            <Download instance={instance} path={path} />
          </div>
        </>
      )}
      <Reading of={{ value: base, error: read.error }} />
      <Outcome acts={acts} />
      {base === undefined && read.error !== undefined && (
        <>
          <Problem error={read.error} />
          <div class="acts">
            <Download instance={instance} path={path} />
          </div>
        </>
      )}
    </section>
  );

  async function save(): Promise<string | undefined> {
    if (base === undefined) return undefined;
    const sent = text;
    const changed = await hasChanged(at, base);
    if (changed !== "no") {
      const isMeant = await confirm({
        title: changed === "gone" ? `Create ${name} again?` : `Overwrite ${name}?`,
        lost: (
          <p>
            {changed === "gone"
              ? "It was deleted or moved after you opened it."
              : "Something else has changed it after you opened it. Those changes are lost."}
          </p>
        ),
        verb: changed === "gone" ? "Create" : "Overwrite",
      });
      if (!isMeant) return undefined;
    }
    const saved = await writeText(at, { text: sent, lineEnd: base.lineEnd, signal: ended.current.signal });
    setEdited((now) => ({ base: saved, text: now?.text ?? sent }));
    return `${name} is saved.`;
  }
}

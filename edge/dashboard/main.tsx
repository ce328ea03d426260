import { effect, signal } from "@preact/signals";
import { type ComponentType, render } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { type Access, access, openTenant } from "./api/access.ts";
import { connection, hasLists } from "./api/kinds.ts";
import { checkSession, logOut, logOutProblem, session } from "./api/session.ts";
import { matchPath } from "./match.ts";
import { isOpen, type Page, pageFor, pages } from "./pages.ts";
import { Confirmation } from "./parts/confirm.tsx";
import { createKeyMatcher } from "./parts/key-matcher.ts";
import { bindings, hasLetterKeys, useKey } from "./parts/keys.ts";
import { goBack, navigate, type PageParams, place } from "./route.ts";
import { Banner } from "./shell/banner.tsx";
import { DensityChoice, ThemeChoice } from "./shell/choices.tsx";
import { Login } from "./shell/login.tsx";
import { Navigation } from "./shell/navigation.tsx";
import "./style.css";

interface Shown {
  readonly page: Page | undefined;
  readonly params: PageParams;
  /** Undefined while it loads. */
  readonly content: ComponentType<{ params: PageParams }> | undefined;
  readonly problem?: string;
}

const shown = signal<Shown>({ page: undefined, params: {}, content: undefined });

effect(() => {
  const { pathname } = place.value;
  void show(pathname, access.value);
});

/** @param who undefined before the login: the page's script is loaded, and not shown yet */
async function show(pathname: string, who: Access | undefined): Promise<void> {
  if (pathname === "/dashboard" || pathname === "/dashboard/") {
    navigate("/", { replace: true });
    return;
  }
  for (const one of pages) {
    const params = matchPath(one.path, pathname);
    if (params === undefined) continue;
    const page = who === undefined ? one : pageFor(one);
    document.title = `${page.title(params)} · tenancy`;
    if (who !== undefined && !isOpen(page)) {
      shown.value = { page, params, content: undefined, problem: barredWords(who) };
      return;
    }
    const tenantId = params.tenant ?? (page.path.startsWith("/dashboard/tenants/") ? params.id : undefined);
    // The lists were read without the tenant.
    if (tenantId !== undefined && openTenant(tenantId) && hasLists()) location.reload();
    const before = shown.peek();
    const content = before.page === page ? before.content : undefined;
    shown.value = { page, params, content };
    if (content !== undefined) return;
    try {
      const { default: loaded } = await page.load();
      const now = shown.peek();
      // The caller may have turned out to be one who cannot use it.
      if (now.page === page && now.problem === undefined) shown.value = { ...now, content: loaded };
    } catch (error) {
      if (shown.peek().page === page) shown.value = { page, params, content: undefined, problem: String(error) };
    }
    return;
  }
  shown.value = { page: undefined, params: {}, content: undefined, problem: `Page ${pathname} does not exist` };
}

function barredWords({ role, tenants }: Access): string {
  return `Your login has the role ${role}${tenants ? ` of ${tenants.join(", ")}` : ""}, which cannot use this page.`;
}

function App() {
  const { page, params, content: Content, problem } = shown.value;
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  const pathname = place.value.pathname;
  // Who may see what is known after the login.
  const isIn = access.value !== undefined;
  // Screen readers announce the new page; they read the first page from its top anyway.
  useLayoutEffect(() => {
    if (Content === undefined || !isIn) return;
    if (!isFirst.current) {
      const heading = main.current?.querySelector("h1");
      heading?.setAttribute("tabindex", "-1");
      heading?.focus();
    }
    isFirst.current = false;
  }, [Content, pathname, isIn]);
  useKey("Escape", "Back", goBack);
  useKey("Control+k", "Search", () => open("palette"));
  useKey("?", "Keys", () => open("help"));
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <Navigation current={page} />
      <div class="content">
        <header>
          <b>tenancy</b>
          <button type="button" class="search" onClick={() => open("palette")}>
            Search <kbd>Ctrl K</kbd>
          </button>
          <Freshness />
          <DensityChoice />
          <ThemeChoice />
          {session.value?.asksForKey === true && session.value.active && (
            <button type="button" onClick={() => void logOut()}>
              Log out
            </button>
          )}
          {logOutProblem.value !== undefined && (
            <span role="alert" class="is-bad">
              {logOutProblem.value}
            </span>
          )}
        </header>
        <Banner />
        <main id="main" tabIndex={-1} ref={main}>
          {/* A new key for each object, so that the outcome of an act on one is not shown for the next. */}
          {isIn && Content !== undefined && <Content key={pathname} params={params} />}
          {problem !== undefined && (
            <>
              <h1>{page === undefined ? "Page not found" : "Cannot load this page"}</h1>
              <p>{problem}</p>
              {page !== undefined && (
                <div class="acts">
                  <button type="button" onClick={() => location.reload()}>
                    Reload
                  </button>
                </div>
              )}
            </>
          )}
        </main>
      </div>
      <Opened />
      <Confirmation />
      <Login />
    </>
  );
}

/** Rarely used parts are loaded on demand. */
const overlays = {
  palette: () => import("./shell/palette.tsx"),
  help: () => import("./shell/help.tsx"),
};
const opened = signal<ComponentType<{ close(): void }> | undefined>(undefined);

function open(name: keyof typeof overlays): void {
  overlays[name]().then(
    ({ default: overlay }) => {
      opened.value = overlay;
    },
    (error: unknown) => console.warn("Cannot load", error),
  );
}

function Opened() {
  const Overlay = opened.value;
  if (Overlay === undefined) return null;
  return (
    <Overlay
      close={() => {
        opened.value = undefined;
      }}
    />
  );
}

function Freshness() {
  const state = connection.value;
  // Pages without a list, such as a form, may follow nothing.
  if (state === "loading") return null;
  return (
    <span class={`fresh is-${state}`}>
      <span aria-hidden="true">{state === "live" ? "●" : "○"}</span> {state}
    </span>
  );
}

const match = createKeyMatcher();
addEventListener("keydown", (event) => {
  if (event.defaultPrevented || document.querySelector("dialog[open]") !== null) return;
  const { key, ctrlKey, metaKey, altKey, timeStamp, repeat, target } = event;
  const isTyping = target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");
  const found = match({ key, ctrlKey, metaKey, altKey, timeStamp, repeat, isTyping }, bindings.value);
  if (found === undefined || (!hasLetterKeys.value && key.length === 1 && !ctrlKey && !metaKey)) return;
  event.preventDefault();
  found.act();
});

render(<App />, document.getElementById("app") as HTMLElement);
void checkSession();

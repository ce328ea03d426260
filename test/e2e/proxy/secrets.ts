import * as assert from "uvu/assert";
import type { Case } from "../../at-once.ts";
import { type FrontDoor, podOf } from "./front-door.ts";

const HANDSHAKE = [
  "Connection: Upgrade",
  "Upgrade: websocket",
  "Sec-WebSocket-Version: 13",
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
];
const COOKIE = "tenancy-link";
const PARAMETER = "tenancy-token";

const tokenOf = (url: string) => new URL(url).searchParams.get(PARAMETER) ?? "";

/** Each of a word's letters percent-encoded. */
const encoded = (word: string) => [...word].map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join("");

export const secrets: Case<FrontDoor> = [
  "every byte that a pod gets: no API key, no token and no cookie of ours, by whatever way a visitor comes in",
  async (door) => {
    const { apiKey } = door;
    const host = `app-9000--cara.localhost:${door.port}`;
    const own = { workload: "app", port: 9000, expiresInSeconds: 600 };
    const { url } = (await door.api("POST", "/tenants/cara/links", own)) as { url: string };
    assert.is(new URL(url).host, host);
    const token = tokenOf(url);
    assert.ok(token.length > 20);

    let asked = 0;
    const arrived: string[] = [];
    /** Sends a request with a mark in its path; those that come in must be found at the pod. */
    async function ask(
      what: string,
      lines: readonly string[],
      request: {
        target?: (mark: string) => string;
        host?: string;
        version?: string;
        body?: string;
        method?: string;
      } = {},
    ): Promise<string> {
      asked += 1;
      const mark = `mark-${asked}-`;
      const { target = (path: string) => `/${path}`, version = "1.1", body = "", method = "GET" } = request;
      const isSocket = lines.includes("Upgrade: websocket");
      const all = [`${method} ${target(mark)} HTTP/${version}`, `Host: ${request.host ?? host}`, ...lines];
      if (!isSocket) all.push("Connection: close");
      const answer = await door.raw(`${all.join("\r\n")}\r\n\r\n${body}`, (text) => / 101 /.test(text));
      if (/^HTTP\/1\.1 (200|101) /.test(answer)) arrived.push(mark);
      else assert.match(answer, /^HTTP\/1\.1 (303|404) /, `${what}: ${answer}`);
      return answer;
    }
    async function comesIn(...words: Parameters<typeof ask>): Promise<void> {
      const answer = await ask(...words);
      assert.match(answer, /^HTTP\/1\.1 (200|101) /, `${words[0]}: ${answer}`);
    }

    const bearer = `Authorization: Bearer ${apiKey}`;
    const key = `X-Tenancy-Key: ${apiKey}`;
    // The page that a browser opens: a cookie for the token.
    const opened = await ask("a browser", ["Accept: text/html"], {
      target: (mark) => `/${mark}?${PARAMETER}=${token}`,
    });
    assert.match(opened, /^HTTP\/1\.1 303 /);
    assert.match(opened, /^Location: http:\/\/app-9000--cara\.localhost:\d+\/mark-1-\r$/m);
    const cookie = new RegExp(`^Set-Cookie: ${COOKIE}=([^;]+);`, "m").exec(opened)?.[1] ?? "";
    assert.ok(cookie.length > 20 && cookie !== token, opened);

    for (const line of [
      bearer,
      bearer.toLowerCase().replace(apiKey.toLowerCase(), apiKey),
      `AUTHORIZATION: BEARER    ${apiKey}  `,
      key,
      `x-tenancy-key:${apiKey}`,
      `X-TENANCY-KEY:\t${apiKey}\t`,
    ])
      await comesIn(line, [line]);
    await comesIn("both", [bearer, key]);
    await comesIn("the program's own credentials", [key, "Authorization: Basic b3duOm93bg=="]);
    await comesIn("the key after the program's own", ["Authorization: Basic b3duOm93bg==", bearer]);
    await comesIn("the key twice", [bearer, bearer, key, key]);
    await comesIn("underscores beside it", [key, `X_Tenancy_Key: ${apiKey}`, `x_tenancy-key: ${apiKey}`]);
    await comesIn("named by Connection", [key, bearer, "Connection: X-Tenancy-Key, Authorization"]);
    await comesIn("HTTP/1.0", [bearer], { version: "1.0" });
    await comesIn("an absolute target", [key], { target: (mark) => `http://${host}/${mark}?${PARAMETER}=${token}` });

    const queries = [
      `${PARAMETER}=${token}`,
      `a=1&${PARAMETER}=${token}&b=2`,
      `${PARAMETER}=${token}&${PARAMETER}=${token}`,
      `${PARAMETER}=${token}&${encoded(PARAMETER)}=${token}&tenancy%2dtoken=${token}`,
      `&&${PARAMETER}=${token}&`,
      `${PARAMETER}=${token}&${PARAMETER}=${encoded(token)}`,
    ];
    for (const query of queries) {
      await comesIn(query, [], { target: (mark) => `/${mark}?${query}` });
      await comesIn(query, HANDSHAKE, { target: (mark) => `/${mark}?${query}` });
      const byPath = (mark: string) => `/t/cara/app:9000/${mark}?${query}`;
      await comesIn(`${query} by path`, [], { target: byPath, host: `127.0.0.1:${door.port}` });
    }
    await ask("a token that is encoded", [], { target: (mark) => `/${mark}?${PARAMETER}=${encoded(token)}` });
    await comesIn("that and the key", [key], { target: (mark) => `/${mark}?${PARAMETER}=${encoded(token)}` });
    await comesIn("letters of the path that are encoded", [key], {
      target: (mark) => `/t/%63ara/%61pp%3A9000/${mark}?${PARAMETER}=${token}`,
      host: `127.0.0.1:${door.port}`,
    });

    for (const lines of [
      [`Cookie: ${COOKIE}=${cookie}`],
      [`COOKIE: own=1;${COOKIE}=${cookie};other=2`],
      ["Cookie: own=1", `cookie: ${COOKIE}=${cookie}; other=2`],
      [`Cookie: ${COOKIE}=${cookie}; ${COOKIE}=${cookie}`, `Cookie: ${COOKIE}=${cookie}`],
      [`Cookie: ${COOKIE}=wrong; ${COOKIE} = ${cookie} ; ${COOKIE}=${cookie}`],
      [`Cookie: ;; ${COOKIE}=${cookie};`],
    ]) {
      await comesIn(lines.join(), lines);
      await comesIn(lines.join(), [...lines, ...HANDSHAKE, `Origin: http://${host}`]);
    }
    await ask("a cookie as a token", [], { target: (mark) => `/${mark}?${PARAMETER}=${cookie}` });
    await comesIn("a cookie by path", [key, `Cookie: own=1; ${COOKIE}=${cookie}`], {
      target: (mark) => `/t/cara/app:9000/${mark}`,
      host: `127.0.0.1:${door.port}`,
    });
    for (const line of [key, bearer]) await comesIn("a handshake", [...HANDSHAKE, line]);

    // A page that was opened in a frame with its token has it in its address, which goes along with all that it asks.
    for (const address of [
      url,
      `${url}&a=1`,
      url.replace(PARAMETER, encoded(PARAMETER)),
      `${url}&${PARAMETER}=${token}`,
    ])
      await comesIn("Referer", [key, `Referer: ${address}`]);
    const trailer = [bearer, key, `X_Tenancy_Key: ${apiKey}`, `Cookie: ${COOKIE}=${cookie}`, `Referer: ${url}`];
    await comesIn("trailers", [key, "Transfer-Encoding: chunked", "Trailer: Authorization, Cookie"], {
      method: "POST",
      body: `4\r\nbody\r\n0\r\n${[...trailer, "X-Own: kept"].join("\r\n")}\r\n\r\n`,
    });

    const pod = await podOf(door, "cara");
    const kept = (await (await fetch(`http://${pod.host}:9001/`)).json()) as string[];
    const all = kept.join("\n");
    for (const mark of arrived) assert.ok(all.includes(mark), `${mark} has not arrived`);
    // What is the program's own has arrived.
    for (const own of ["Authorization: Basic b3duOm93bg==", "own=1", "other=2", "a=1&b=2", "X-Own: kept"])
      assert.ok(all.includes(own), own);
    const decoded = all.replaceAll(/%([0-9a-f]{2})/gi, (_, code: string) =>
      String.fromCharCode(Number.parseInt(code, 16)),
    );
    for (const text of [all, decoded]) {
      for (const secret of [apiKey, token, cookie, COOKIE, PARAMETER, "tenancy-key", "tenancy_key"]) {
        const at = text.toLowerCase().indexOf(secret.toLowerCase());
        assert.is(at, -1, `${secret} in ${text.slice(Math.max(0, at - 300), at + 200)}`);
      }
    }
  },
];

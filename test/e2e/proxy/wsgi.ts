import * as assert from "uvu/assert";
import type { Case } from "../../at-once.ts";
import type { FrontDoor } from "./front-door.ts";

interface Seen {
  readonly environ: Record<string, string>;
  readonly body: string;
}

export const wsgi: Case<FrontDoor> = [
  "WSGI: no spelling of a header makes the program believe what a visitor says of itself",
  async (door) => {
    const host = door.host("wsgi", "ann");
    const planted = "planted-by-the-visitor";
    const ours = ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Prefix", "X-Forwarded-Port"];
    const names = [...ours, "Forwarded", "X-Real-IP", "X-Request-Id", "X-Tenancy-Key", "X-Tenancy-Anything"];
    const spellings = (name: string) => {
      const words = name.split("-");
      const last = words.pop() ?? "";
      return [
        name.replaceAll("-", "_"),
        name.replaceAll("-", "_").toUpperCase(),
        ...(words.length > 0 ? [`${words.join("-")}_${last}`.toLowerCase(), `${words.join("_")}-${last}`] : []),
        ...(name === "X-Tenancy-Key" ? [] : [name, name.toLowerCase()]),
      ];
    };
    const lines = names.flatMap(spellings).map((name) => `${name}: ${planted}`);
    const credentials = [`Authorization: Bearer ${door.apiKey}`, `X_Tenancy_Key: ${door.apiKey}`];
    const head = ["POST /seen?a=b HTTP/1.1", `Host: ${host}`, ...lines, ...credentials, "X-Own_Name: kept"];
    const answer = await door.raw(
      `${head.join("\r\n")}\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody`,
      () => false,
    );
    assert.match(answer, /^HTTP\/1\.1 200 /);
    assert.not.match(answer, new RegExp(`${planted}|${door.apiKey}`));
    const { environ, body } = JSON.parse(/\{.*\}/s.exec(answer)?.[0] ?? "") as Seen;
    assert.is(body, "body");
    assert.equal(
      [environ.HTTP_X_FORWARDED_FOR, environ.HTTP_X_FORWARDED_PROTO, environ.HTTP_X_FORWARDED_HOST],
      ["127.0.0.1", "http", host],
    );
    assert.equal([environ.HTTP_HOST, environ.QUERY_STRING, environ.HTTP_X_OWN_NAME], [host, "a=b", "kept"]);
    assert.is(environ.HTTP_AUTHORIZATION, undefined);
  },
];

export const oldProgram: Case<FrontDoor> = [
  "WSGI: a program that speaks HTTP/1.0 serves one client of HTTP/1.1 after the other on one connection",
  async (door) => {
    const host = door.host("wsgi", "ann");
    const key = `X-Tenancy-Key: ${door.apiKey}`;
    const request = (path: string, last: boolean) =>
      `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${key}\r\n${last ? "Connection: close\r\n" : ""}\r\n`;
    const answer = await door.raw(`${request("/one", false)}${request("/two", true)}`, () => false);
    assert.is([...answer.matchAll(/^HTTP\/1\.1 200 OK\r$/gm)].length, 2, answer);
    assert.match(answer, /"PATH_INFO": "\/one".*"PATH_INFO": "\/two"/s);
    const waits = await door.send(host, "/slow", {
      method: "PUT",
      headers: { expect: "100-continue", "content-length": 5 },
      body: "later",
    });
    assert.is((JSON.parse(String(waits.body)) as Seen).body, "later");
  },
];

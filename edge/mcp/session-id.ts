import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { Actor } from "../access/actor.ts";

/**
 * Ids of sessions, which say only which calls a cancellation may mean. They are signed for one key, so that every
 * replica with the same signing key accepts them, and none stores them.
 */
export interface SessionIds {
  issue(actor: Pick<Actor, "ref">): Promise<string>;
  /** Whether this is a session of that key. */
  isOf(actor: Pick<Actor, "ref">, id: string): Promise<boolean>;
}

const ID = /^([\w-]{22})\.([\w-]{43})$/;

export function createSessionIds(signingKey: () => Promise<Buffer>): SessionIds {
  async function sign(text: string, { ref }: Pick<Actor, "ref">): Promise<Buffer> {
    return createHmac("sha256", await signingKey())
      .update(`${text} ${ref}`)
      .digest();
  }
  return {
    async issue(actor) {
      const text = randomBytes(16).toString("base64url");
      return `${text}.${(await sign(text, actor)).toString("base64url")}`;
    },
    async isOf(actor, id) {
      const [, text, mac] = ID.exec(id) ?? [];
      if (text === undefined || mac === undefined) return false;
      return timingSafeEqual(await sign(text, actor), Buffer.from(mac, "base64url"));
    },
  };
}

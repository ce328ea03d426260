import { scrypt } from "node:crypto";
import { promisify } from "node:util";

const derive = promisify(scrypt) as (key: string, salt: string, length: number) => Promise<Buffer>;

/**
 * A key for one use that comes from the API key, so that replicas agree on it. It is derived once, by scrypt: someone
 * with what it signs cannot test many API keys against that.
 */
export function createDerivedKey(apiKey: string, use: string): () => Promise<Buffer> {
  let derived: Promise<Buffer> | undefined;
  return async () => {
    derived ??= derive(apiKey, use, 32);
    try {
      return await derived;
    } catch (error) {
      derived = undefined;
      throw error;
    }
  };
}

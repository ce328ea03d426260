import * as v from "valibot";

const messageSchema = v.object({ content: v.union([v.string(), v.array(v.unknown())]) });
const textBlockSchema = v.object({ type: v.literal("text"), text: v.string() });

/** The text of a chat message of the Gateway protocol, whose content is a string or a list of blocks; undefined where it is neither. */
export function chatMessageText(message: unknown): string | undefined {
  const parsed = v.safeParse(messageSchema, message);
  if (!parsed.success) return undefined;
  const { content } = parsed.output;
  if (typeof content === "string") return content;
  return content.flatMap((block) => (v.is(textBlockSchema, block) ? [block.text] : [])).join("");
}

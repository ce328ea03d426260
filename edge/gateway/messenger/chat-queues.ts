/** Work of many chats: in order within a chat, side by side between them. */
export interface ChatQueues<Item> {
  /** Does the work when all earlier items of the chat are done and fewer than `limit` chats are at work. */
  add(chatId: number, item: Item): void;
  /** Drops what has not begun, and resolves when the rest is done. */
  drain(): Promise<void>;
}

/** @param options.work never rejects: what goes wrong with an item is its own to tell */
export function createChatQueues<Item>(options: {
  limit: number;
  work: (item: Item) => Promise<void>;
}): ChatQueues<Item> {
  const { limit, work } = options;
  /** Every chat with work, those at work included. */
  const chats = new Map<number, Item[]>();
  /** Chats that wait for one of the places, longest first. */
  let ready: number[] = [];
  const running = new Set<Promise<void>>();

  function start(): void {
    while (running.size < limit) {
      const chatId = ready.shift();
      if (chatId === undefined) return;
      const item = chats.get(chatId)?.shift();
      if (item === undefined) continue;
      const run: Promise<void> = work(item).finally(() => {
        running.delete(run);
        if ((chats.get(chatId)?.length ?? 0) > 0) ready.push(chatId);
        else chats.delete(chatId);
        start();
      });
      running.add(run);
    }
  }

  return {
    add(chatId, item) {
      const queue = chats.get(chatId);
      if (queue !== undefined) {
        queue.push(item);
        return;
      }
      chats.set(chatId, [item]);
      ready.push(chatId);
      start();
    },
    async drain() {
      ready = [];
      for (const queue of chats.values()) queue.length = 0;
      while (running.size > 0) await Promise.all(running);
    },
  };
}

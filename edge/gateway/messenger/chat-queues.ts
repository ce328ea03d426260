/** Work of many chats: in order within a chat, concurrent between chats. */
export interface ChatQueues<Item> {
  /**
   * Runs the work when all earlier items of the chat are done and a slot is free.
   *
   * @param whose.tenant omitted if all chats belong to one tenant
   */
  add(item: Item, whose: { chatId: number; tenant?: string | undefined }): void;
  /**
   * Removes the newest waiting items of the chat or tenant with the most, down to `keep`, and returns them, oldest
   * first.
   */
  shed(keep: number): Item[];
  /** Drops the waiting items, and resolves when the running ones are done. */
  drain(): Promise<void>;
  /** Chats with work. */
  readonly size: number;
}

interface Queued<Item> {
  readonly item: Item;
  readonly chatId: number;
  readonly tenant: string | undefined;
  /** Increases with each added item. */
  readonly order: number;
}

/**
 * @param options.limit number of chats that run concurrently
 * @param options.perTenant how many of them may belong to one tenant
 * @param options.work never rejects: it reports an item's failure itself
 */
export function createChatQueues<Item>(options: {
  limit: number;
  perTenant: number;
  work: (item: Item) => Promise<void>;
}): ChatQueues<Item> {
  const { limit, perTenant, work } = options;
  /** Every chat with work, running ones included. */
  const chats = new Map<number, Queued<Item>[]>();
  /** Chats waiting for a slot, longest first. */
  let ready: number[] = [];
  const running = new Set<Promise<void>>();
  const runningByTenant = new Map<string, number>();
  let added = 0;

  function mayStart(chatId: number): boolean {
    const tenant = chats.get(chatId)?.[0]?.tenant;
    return tenant === undefined || (runningByTenant.get(tenant) ?? 0) < perTenant;
  }

  function count(tenant: string | undefined, change: 1 | -1): void {
    if (tenant === undefined) return;
    const now = (runningByTenant.get(tenant) ?? 0) + change;
    if (now === 0) runningByTenant.delete(tenant);
    else runningByTenant.set(tenant, now);
  }

  function start(): void {
    while (running.size < limit) {
      const chatId = ready.find(mayStart);
      if (chatId === undefined) return;
      ready = ready.filter((other) => other !== chatId);
      const next = chats.get(chatId)?.shift();
      if (next === undefined) continue;
      count(next.tenant, 1);
      const run: Promise<void> = work(next.item).finally(() => {
        running.delete(run);
        count(next.tenant, -1);
        if ((chats.get(chatId)?.length ?? 0) > 0) ready.push(chatId);
        else chats.delete(chatId);
        start();
      });
      running.add(run);
    }
  }

  return {
    add(item, { chatId, tenant }) {
      const queued = { item, chatId, tenant, order: added++ };
      const queue = chats.get(chatId);
      if (queue !== undefined) {
        queue.push(queued);
        return;
      }
      chats.set(chatId, [queued]);
      ready.push(chatId);
      start();
    },
    shed(keep) {
      const groups = new Map<number | string, Queued<Item>[]>();
      for (const queued of [...chats.values()].flat()) {
        for (const key of [queued.chatId, queued.tenant]) {
          if (key === undefined) continue;
          const group = groups.get(key) ?? [];
          groups.set(key, group);
          group.push(queued);
        }
      }
      const [largest = []] = [...groups.values()].sort((a, b) => b.length - a.length);
      const shed = new Set(largest.sort((a, b) => a.order - b.order).slice(keep));
      for (const [chatId, queue] of chats) {
        queue.splice(0, queue.length, ...queue.filter((queued) => !shed.has(queued)));
        if (queue.length > 0 || !ready.includes(chatId)) continue;
        ready = ready.filter((other) => other !== chatId);
        chats.delete(chatId);
      }
      return [...shed].map(({ item }) => item);
    },
    async drain() {
      ready = [];
      for (const queue of chats.values()) queue.length = 0;
      while (running.size > 0) await Promise.all(running);
    },
    get size() {
      return chats.size;
    },
  };
}

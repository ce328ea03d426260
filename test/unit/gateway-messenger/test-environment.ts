import type { StartAdapter } from "../../../edge/gateway/adapter.ts";
import type { BotAccount, FakeChat } from "../../messenger/bot-account.ts";
import { FakeMessenger } from "../../messenger/fake-messenger.ts";
import { type ManualClock, manualClock } from "../manual-clock.ts";
import { echo } from "./answered.ts";
import { MemoryCluster, messengerTrigger } from "./cluster.ts";
import { type Mishap, type Replica, type Run, startReplica } from "./replica.ts";
import { simulate } from "./simulate.ts";

export const TOKEN = "123456:AAH-secret_of_the_bot";

/** A bot on the fake, a cluster, and the processes of the gateway that a test starts; time is the test's. */
export interface TestEnvironment {
  readonly clock: ManualClock;
  readonly cluster: MemoryCluster;
  readonly server: FakeMessenger;
  readonly bot: BotAccount;
  start(
    options?: Partial<Parameters<typeof messengerTrigger>[0]> & { run?: Run; adapter?: StartAdapter; mishap?: Mishap },
  ): Replica;
  /** A person writes in the private chat of that id. */
  write(chatId: number, text: string): number;
  /** What the bot has said in the chat. */
  said(chatId: number): string[];
  /** Lets time pass until the check holds. */
  until(what: string, check: () => boolean): Promise<void>;
  /** Lets time pass until nothing waits for an answer, and the server knows. */
  untilAnswered(): Promise<void>;
  /** Kills what still runs. */
  end(): void;
}

export function testEnvironment(options: { firstUpdateId?: number } = {}): TestEnvironment {
  const clock = manualClock();
  const cluster = new MemoryCluster(clock);
  const server = new FakeMessenger({ clock });
  const bot = server.bot(TOKEN, options);
  const replicas: Replica[] = [];
  cluster.secret(TOKEN);
  const until = (what: string, check: () => boolean) =>
    simulate(
      clock,
      () => `${what}\n${replicas.flatMap(({ logs }) => logs.slice(-3).map((line) => line.slice(0, 200))).join("\n")}`,
      check,
    );
  return {
    clock,
    cluster,
    server,
    bot,
    start({ run = echo, adapter, mishap, ...trigger } = {}) {
      const replica = startReplica({
        cluster,
        trigger: messengerTrigger(trigger),
        fetch: server.fetch,
        run,
        mishap,
        ...(adapter !== undefined && { adapter }),
      });
      replicas.push(replica);
      return replica;
    },
    write: (chatId, text) => bot.write({ chat: privateChat(chatId), text }),
    said: (chatId) => bot.sent.filter((message) => message.chatId === chatId).map(({ text }) => text),
    until,
    untilAnswered: () => until("all answered", () => bot.updates.length === 0),
    end() {
      for (const replica of replicas) replica.kill();
    },
  };
}

export function privateChat(id: number): FakeChat {
  return { id, type: "private" };
}

/** What a call answers that waits no longer, for something that goes on. */
const STILL_GOING = 504;
/** Each call waits for half a minute. */
const MOST_CALLS = 10;

interface Answer {
  readonly status: number;
}

/** Repeats a call until what it asks for is there, since on a busy machine that takes longer than one call waits. */
export async function patiently<T extends Answer>(call: () => Promise<T>): Promise<T> {
  for (let calls = 1; ; calls += 1) {
    const answer = await call();
    if (answer.status !== STILL_GOING || calls === MOST_CALLS) return answer;
  }
}

/** Does the same with a release, which may come to its end between two calls: the second then finds nothing. */
export async function untilReleased<T extends Answer>(call: () => Promise<T>): Promise<T> {
  let calls = 0;
  const answer = await patiently(async () => {
    calls += 1;
    return await call();
  });
  return calls > 1 && answer.status === 404 ? { ...answer, status: 200 } : answer;
}

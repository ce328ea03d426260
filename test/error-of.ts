/** Resolves with what a promise is rejected with, or with undefined. */
export async function errorOf(attempt: Promise<unknown>): Promise<unknown> {
  return await attempt.then(
    () => undefined,
    (error: unknown) => error,
  );
}

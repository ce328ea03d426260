/** Stands for the answer to a WebSocket's handshake, which the adapter sends itself: `Response` allows no status of the 100s. */
export function switchingProtocols(): Response {
  return { status: 101, headers: new Headers(), body: null } as unknown as Response;
}

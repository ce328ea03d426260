const WELL_FORMED = /^[\w.:-]{1,128}$/;

/**
 * Returns a function that names a request: the caller's own `x-request-id` where it is safe to log and to send back, else the
 * instance's prefix and a count.
 */
export function createRequestId(instance: string): (request: Request) => string {
  let count = 0;
  return (request) => {
    const given = request.headers.get("x-request-id");
    if (given !== null && WELL_FORMED.test(given)) return given;
    count += 1;
    return `${instance}-${count.toString(36)}`;
  };
}

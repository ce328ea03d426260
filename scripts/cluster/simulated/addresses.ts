/** Hands out the addresses of a /16 one by one, those given back last of all, or at once. */
export interface Addresses {
  /** Returns an address that nobody has; the wanted one when it is free. */
  take(wanted?: string): string;
  release(address: string): void;
}

const SIZE = 65_534;

/**
 * Returns the addresses of a network.
 *
 * @param options.network its first two numbers, such as `10.64`
 * @param options.reuseAtOnce whether the address given back last is the next one
 */
export function createAddresses({ network, reuseAtOnce }: { network: string; reuseAtOnce: boolean }): Addresses {
  const taken = new Set<string>();
  const released: string[] = [];
  let last = 0;
  return {
    take(wanted) {
      if (wanted !== undefined && !taken.has(wanted)) {
        taken.add(wanted);
        return wanted;
      }
      if (taken.size >= SIZE) throw new Error(`Cannot find an address in ${network}.0.0/16: all are taken`);
      for (let address = released.pop(); address !== undefined; address = released.pop()) {
        if (taken.has(address)) continue;
        taken.add(address);
        return address;
      }
      for (;;) {
        last = (last % SIZE) + 1;
        const address = `${network}.${last >> 8}.${last & 255}`;
        if (taken.has(address)) continue;
        taken.add(address);
        return address;
      }
    },
    release(address) {
      taken.delete(address);
      if (reuseAtOnce) released.push(address);
    },
  };
}

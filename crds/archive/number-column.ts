/** A typed array of numbers that grows as needed. A number that was not set is 0. */
export interface NumberColumn {
  get(index: number): number;
  set(index: number, value: number): void;
}

const FIRST_NUMBERS = 1024;

/** @param Numbers the type of the array, such as `Uint8Array` for numbers up to 255 */
export function createNumberColumn(Numbers: typeof Uint8Array | typeof Uint32Array): NumberColumn {
  let numbers = new Numbers(FIRST_NUMBERS);
  return {
    get: (index) => numbers[index] ?? 0,
    set(index, value) {
      if (index >= numbers.length) {
        const longer = new Numbers(Math.max(index + 1, numbers.length * 2));
        longer.set(numbers);
        numbers = longer;
      }
      numbers[index] = value;
    },
  };
}

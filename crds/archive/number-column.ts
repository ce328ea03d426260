/** Numbers by their index, 0 where none was set, in as many bytes each as the array has; it grows as needed. */
export interface NumberColumn {
  get(index: number): number;
  set(index: number, value: number): void;
}

const FIRST_NUMBERS = 1024;

/** @param Numbers what one number may be, such as `Uint8Array` for those up to 255 */
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

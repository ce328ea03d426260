// Preloaded into a program: its clock is wrong by the milliseconds in the file that SOAK_CLOCK_FILE names, from the moment on at
// which they are written there.
import { readFileSync } from "node:fs";

const path = process.env.SOAK_CLOCK_FILE;
const rightNow = Date.now.bind(Date);
let offset = read();
setInterval(() => {
  offset = read();
}, 100).unref();

globalThis.Date = class extends Date {
  constructor(...parameters) {
    if (parameters.length === 0) super(rightNow() + offset);
    else super(...parameters);
  }

  static now() {
    return rightNow() + offset;
  }
};

function read() {
  return Number(readFileSync(path, "utf8")) || 0;
}

/** The slice of a structured logger that this project calls: fields first, then a constant message (pino's order). */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** A command in a pod that ended and did not do what it was for; the message says why, in the command's own words. */
export class ExecFailure extends Error {
  override readonly name = "ExecFailure";
  readonly exitCode: number;

  constructor(message: string, fields: { exitCode: number }) {
    super(message);
    this.exitCode = fields.exitCode;
  }
}

const FORM = /^tk_[a-z0-9]{16}_[\w-]{43}$/;

/** Whether a text has the form of a key. */
export function isKeyText(text: string): boolean {
  return FORM.test(text);
}

import sheetText from "@xterm/xterm/css/xterm.css" with { type: "text" };

/**
 * Applies the styles of a terminal with a constructed style sheet. The page's content policy refuses its `<style>`
 * elements: docs/decisions/edge-http.md#the-dashboards-page. So they are taken out, where the terminal still writes to
 * them. Call this before the element is part of the page.
 *
 * @returns a function that removes the styles
 */
export function adoptStyles(of: HTMLElement): () => void {
  const styles = [...of.querySelectorAll("style")];
  const sheet = new CSSStyleSheet();
  const adopt = (): void => sheet.replaceSync([sheetText, ...styles.map((style) => style.textContent)].join("\n"));
  const observer = new MutationObserver(adopt);
  for (const style of styles) {
    style.remove();
    observer.observe(style, { childList: true, characterData: true, subtree: true });
  }
  adopt();
  document.adoptedStyleSheets.push(sheet);
  return () => {
    observer.disconnect();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
  };
}

interface RowFactory {
  _addStyle(element: HTMLElement, style: string): void;
}

/**
 * Makes a terminal set the colours of cells by the CSSOM: it writes `style` attributes, which the policy refuses as
 * well.
 *
 * @throws Error if the terminal is of a version with other internals
 */
export function setStylesByCssom(terminal: object): void {
  const { _core: core } = terminal as {
    _core?: { _renderService?: { _renderer?: { value?: { _rowFactory?: Partial<RowFactory> } } } };
  };
  const factory = core?._renderService?._renderer?.value?._rowFactory;
  if (factory?._addStyle === undefined) throw new Error("Cannot set the colours of this version of xterm");
  factory._addStyle = (element, style) => {
    element.style.cssText += style;
  };
}

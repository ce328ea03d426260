import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

/** A modal dialog, open while it is mounted; afterwards the focus returns to where it was. */
export function Dialog(props: {
  title: string;
  class?: string;
  /** Called on Escape; without it the dialog stays open. */
  onCancel?: () => void;
  children: ComponentChildren;
}) {
  const { title, onCancel, children } = props;
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = box.current;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={box}
      class={props.class}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onCancel?.();
      }}
      onClose={(event) => {
        // Browsers close the dialog on a second Escape whatever the page does.
        if (!event.currentTarget.isConnected) return;
        if (onCancel === undefined) event.currentTarget.showModal();
        else onCancel();
      }}
    >
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

import { useRef, useState, type FormEvent, type ReactNode } from "react";
import { Button, Dialog, DialogTrigger, Heading, Modal, ModalOverlay } from "react-aria-components";

import { faultsOf, type Faults } from "./faults.js";
import { Rest, useFocusOnFault } from "./fields.js";

interface Form {
  /** The words on the button that opens it. */
  readonly open: string;
  readonly title: string;
  /** The words on the button that does it. */
  readonly submit: string;
  readonly act: () => Promise<unknown>;
  /** The names of the fields that the body shows faults of. */
  readonly fields?: readonly string[];
  readonly ready?: boolean;
  readonly danger?: boolean;
  readonly opened?: () => void;
  readonly closed?: () => void;
  /** What is shown instead of the form once it is done, such as a secret. Without it the dialog closes. */
  readonly done?: ReactNode;
  readonly children: (faults: Faults) => ReactNode;
}

/** A button that opens a dialog with a form. What a field has wrong stands at that field. */
export function FormDialog(form: Form) {
  // While it is done it stays open: what it answers, such as a secret, is shown once.
  const [busy, setBusy] = useState(false);
  return (
    <DialogTrigger onOpenChange={(is) => (is ? form.opened?.() : form.closed?.())}>
      <Button className="button">{form.open}</Button>
      <ModalOverlay className="overlay middle" isKeyboardDismissDisabled={busy}>
        <Modal className="ask">
          <Dialog role={form.danger ? "alertdialog" : "dialog"} className="panel-inner">
            {({ close }) => <Inside form={form} close={close} busy={busy} setBusy={setBusy} />}
          </Dialog>
        </Modal>
      </ModalOverlay>
    </DialogTrigger>
  );
}

interface Opened {
  readonly form: Form;
  readonly close: () => void;
  readonly busy: boolean;
  readonly setBusy: (busy: boolean) => void;
}

function Inside({ form, close, busy, setBusy }: Opened) {
  const [error, setError] = useState<unknown>(null);
  const [over, setOver] = useState(false);
  const inside = useRef<HTMLFormElement>(null);
  const faults = faultsOf(error);
  useFocusOnFault(inside, error);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await form.act();
      setError(null);
      if (form.done === undefined) close();
      else setOver(true);
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Heading slot="title" level={2}>
        {form.title}
      </Heading>
      {over ? (
        <>
          {form.done}
          <div className="row">
            <Button className="button main" autoFocus onPress={close}>
              Close
            </Button>
          </div>
        </>
      ) : (
        <form
          ref={inside}
          className="form"
          noValidate
          onChange={() => setError(null)}
          onSubmit={(event) => void submit(event)}
        >
          {form.children(faults)}
          <Rest error={error} faults={faults} fields={form.fields ?? []} />
          <div className="row">
            <button
              type="submit"
              className={`button ${form.danger ? "danger" : "main"}`}
              disabled={busy || form.ready === false}
            >
              {form.submit}
            </button>
            <Button className="button" isDisabled={busy} onPress={close}>
              Cancel
            </Button>
          </div>
        </form>
      )}
    </>
  );
}

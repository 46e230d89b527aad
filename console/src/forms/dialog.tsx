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
  /** What is shown instead of the form once it is done, such as a secret. Without it the dialog closes. */
  readonly done?: ReactNode;
  readonly children: (faults: Faults) => ReactNode;
}

/** A button that opens a dialog with a form. What a field has wrong stands at that field. */
export function FormDialog(form: Form) {
  return (
    <DialogTrigger onOpenChange={(is) => is && form.opened?.()}>
      <Button className="button">{form.open}</Button>
      <ModalOverlay className="overlay middle">
        <Modal className="ask">
          <Dialog role={form.danger ? "alertdialog" : "dialog"} className="panel-inner">
            {({ close }) => <Inside form={form} close={close} />}
          </Dialog>
        </Modal>
      </ModalOverlay>
    </DialogTrigger>
  );
}

function Inside({ form, close }: { form: Form; close: () => void }) {
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
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
            <Button className="button" onPress={close}>
              Cancel
            </Button>
          </div>
        </form>
      )}
    </>
  );
}

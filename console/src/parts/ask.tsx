import { useState } from "react";
import { Button, Dialog, DialogTrigger, Heading, Modal, ModalOverlay } from "react-aria-components";

import { Failure } from "./basics.js";

interface Asked {
  readonly open: string;
  readonly title: string;
  readonly words: string;
  readonly acts: readonly (readonly [string, () => Promise<unknown>])[];
  readonly opened?: () => void;
}

/** A button that asks before it does something that the outside sees. */
export function Ask({ open, title, words, acts, opened }: Asked) {
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  // A second press while it is being done would do it twice.
  const once = (act: () => Promise<unknown>, close: () => void) => {
    if (busy) return;
    setBusy(true);
    void act()
      .then(close, setError)
      .finally(() => setBusy(false));
  };
  return (
    <DialogTrigger
      onOpenChange={(is) => {
        setError(undefined);
        if (is) opened?.();
      }}
    >
      <Button className="button">{open}</Button>
      <ModalOverlay
        isDismissable={!busy}
        isKeyboardDismissDisabled={busy}
        className="overlay middle"
      >
        <Modal className="ask">
          <Dialog role="alertdialog" className="panel-inner">
            {({ close }) => (
              <>
                <Heading slot="title" level={2}>
                  {title}
                </Heading>
                <p>{words}</p>
                {error !== undefined && <Failure error={error} />}
                <div className="row">
                  {acts.map(([name, act]) => (
                    <Button key={name} className="button main" onPress={() => once(act, close)}>
                      {name}
                    </Button>
                  ))}
                  <Button className="button" onPress={close}>
                    Cancel
                  </Button>
                </div>
              </>
            )}
          </Dialog>
        </Modal>
      </ModalOverlay>
    </DialogTrigger>
  );
}

import { memo, useEffect, useRef, useState } from "react";
import { parseAbsolute, type ZonedDateTime } from "@internationalized/date";
import {
  Button,
  CalendarCell,
  CalendarGrid,
  DateInput,
  DateRangePicker,
  DateSegment,
  Dialog,
  Group,
  Heading,
  I18nProvider,
  Label,
  Popover,
  RangeCalendar,
} from "react-aria-components";

import { STILL_MS } from "../forms/still.js";
import type { Range } from "../rules/range.js";

/** A year with fewer digits is one that is being written. */
const YEAR_MIN = 1000;

/** A range of instants in a zone, by keyboard or calendar. It is set once nothing more is written for a
 * moment, and stays as it is written until it is left: drawn anew, it would lose the focus.
 */
export const RangePicker = memo(function RangePicker({
  range,
  zone,
  set,
}: {
  range: Range;
  zone: string;
  set: (range: Range) => void;
}) {
  const [focused, setFocused] = useState(false);
  const [chosen, choose] = useState<Range>();
  const given = `${range.from} ${range.to} ${zone}`;
  const shown = useRef(given);
  if (!focused) shown.current = given;
  useEffect(() => {
    if (chosen === undefined) return undefined;
    const timer = setTimeout(() => {
      choose(undefined);
      set(chosen);
    }, STILL_MS);
    return () => clearTimeout(timer);
  }, [chosen, set]);
  const value = { start: parseAbsolute(range.from, zone), end: parseAbsolute(range.to, zone) };
  const change = (written: { start: ZonedDateTime; end: ZonedDateTime } | null) => {
    const whole = written !== null && written.start.year >= YEAR_MIN;
    choose(
      whole && written.start.compare(written.end) < 0
        ? { from: written.start.toAbsoluteString(), to: written.end.toAbsoluteString() }
        : undefined,
    );
  };
  return (
    <I18nProvider locale="en-SE">
      <DateRangePicker
        key={shown.current}
        defaultValue={value}
        onChange={change}
        onFocusChange={setFocused}
        granularity="minute"
        hourCycle={24}
        hideTimeZone
        className="field range"
      >
        <Label>Range</Label>
        <Group className="range-group">
          <DateInput slot="start">{(segment) => <DateSegment segment={segment} />}</DateInput>
          <span aria-hidden="true">–</span>
          <DateInput slot="end">{(segment) => <DateSegment segment={segment} />}</DateInput>
          <Button className="button small">Calendar</Button>
        </Group>
        <Popover className="popover">
          <Dialog>
            <RangeCalendar>
              <header className="row">
                <Button slot="previous" className="button small">
                  ‹
                </Button>
                <Heading level={2} />
                <Button slot="next" className="button small">
                  ›
                </Button>
              </header>
              <CalendarGrid>{(date) => <CalendarCell date={date} className="day" />}</CalendarGrid>
            </RangeCalendar>
          </Dialog>
        </Popover>
      </DateRangePicker>
    </I18nProvider>
  );
});

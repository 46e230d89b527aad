import { memo } from "react";
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

import type { Range } from "../rules/range.js";

/** A range of instants in a zone, by keyboard or calendar. */
export const RangePicker = memo(function RangePicker({
  range,
  zone,
  set,
}: {
  range: Range;
  zone: string;
  set: (range: Range) => void;
}) {
  const value = { start: parseAbsolute(range.from, zone), end: parseAbsolute(range.to, zone) };
  const change = (chosen: { start: ZonedDateTime; end: ZonedDateTime } | null) => {
    if (chosen === null || chosen.start.compare(chosen.end) >= 0) return;
    set({ from: chosen.start.toAbsoluteString(), to: chosen.end.toAbsoluteString() });
  };
  return (
    <I18nProvider locale="en-SE">
      <DateRangePicker
        key={`${range.from} ${range.to} ${zone}`}
        defaultValue={value}
        onChange={change}
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

import type { ComponentChildren } from "preact";
import type { FilterColumn } from "./filter.ts";

/** A column of a table. Searches use `text`, so it must not contain more than what is shown. */
export interface Column<Row> extends FilterColumn<Row> {
  readonly title: string;
  /** How it is rendered. @default its text */
  cell?(row: Row): ComponentChildren;
  /** The page that it links to. @default the row's, in the first column */
  href?(row: Row): string | undefined;
  /** A grid track. @default "minmax(0, 1fr)" */
  readonly width?: string;
  /** Aligned to the right. @default false */
  readonly isNumber?: boolean;
  /** On a phone: the line of the row. @default not shown */
  readonly phone?: 1 | 2;
}

import type { ComponentChildren } from "preact";
import type { FilterColumn } from "./filter.ts";

/** A column of a table; `text` is also what a search finds, so it is never longer than what is shown. */
export interface Column<Row> extends FilterColumn<Row> {
  readonly title: string;
  /** How it is shown. @default its text */
  cell?(row: Row): ComponentChildren;
  /** A track of the grid. @default "minmax(0, 1fr)" */
  readonly width?: string;
  /** Aligned to the right. @default false */
  readonly isNumber?: boolean;
  /** On a phone: in the first or in the second line of a row. @default not shown there */
  readonly phone?: 1 | 2;
}

/** Parts of Markdown, and figures as people read them. */

export const section = (title: string, body: string): string => `### ${title}\n\n${body}`;

export const whole = (value: number): string => Math.round(value).toLocaleString('en-US');
/** One digit after the point, where it says something. */
export const short = (value: number): string =>
  value.toLocaleString('en-US', { maximumFractionDigits: value < 100 ? 1 : 0 });

/** Two digits after the point for what is about as large as 1. */
export const precise = (value: number): string =>
  value < 10 ? value.toLocaleString('en-US', { maximumFractionDigits: 2 }) : short(value);

/** The first column to the left, the numbers to the right. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) => Math.max(3, title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const render = (row: readonly string[]): string =>
    `| ${row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0))).join(' | ')} |`;
  const rule = widths.map((width, column) => (column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
  return [render(head), render(rule), ...rows.map(render)].join('\n');
}

/** A terminal's screen as a page: what is between ANSI sequences of colours, in the fonts and colours of a terminal. */

/** The codes that the command line uses, as styles. */
const STYLES: Readonly<Record<number, string>> = {
  1: 'font-weight:bold',
  2: 'opacity:.6',
  31: 'color:#f47067',
  32: 'color:#6bc46d',
  33: 'color:#daaa3f',
  35: 'color:#dcbdfb',
  36: 'color:#56d4dd',
};

/** What sets colours. */
const SGR = new RegExp(`${String.fromCharCode(27)}\\[([\\d;]*)m`);

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** The text as HTML; codes that are not known are left out. */
function styled(ansi: string): string {
  let on: readonly number[] = [];
  return ansi
    .split(SGR)
    .map((part, index) => {
      if (index % 2 === 0) {
        const style = on.flatMap((code) => STYLES[code] ?? []).join(';');
        return style === '' ? escaped(part) : `<span style="${style}">${escaped(part)}</span>`;
      }
      for (const code of part.split(';').map(Number)) {
        if (code === 0) on = [];
        else if (code === 22) on = on.filter((each) => each !== 1 && each !== 2);
        else if (code === 39) on = on.filter((each) => each < 30);
        else on = [...on, code];
      }
      return '';
    })
    .join('');
}

/** A page with the screen in a window, as the element `#terminal`. */
export const terminalPage = (ansi: string, title: string): string => `<!doctype html><meta charset="utf-8">
<style>
  body { margin: 0; padding: 24px; background: #fff; }
  #terminal { display: inline-block; border-radius: 10px; background: #1c2128; color: #d5dbe3; overflow: hidden;
    box-shadow: 0 8px 24px rgba(0,0,0,.25); }
  header { padding: 9px 14px; background: #2d333b; color: #909dab; font: 13px sans-serif; text-align: center; }
  header i { float: left; width: 12px; height: 12px; margin: 1px 7px 0 0; border-radius: 50%; }
  pre { margin: 0; padding: 14px 18px 16px; font: 14px/1.35 'DejaVu Sans Mono', monospace; }
</style>
<div id="terminal"><header><i style="background:#f47067"></i><i style="background:#daaa3f"></i><i style="background:#6bc46d"></i>${escaped(title)}</header><pre>${styled(ansi)}</pre></div>`;

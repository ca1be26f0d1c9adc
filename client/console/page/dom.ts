/**
 * Elements of the page.
 *
 * Invariant: what comes from a server becomes text, and never markup.
 */

/** What stands in an element; what is null is left out. */
export type Content = Node | string | null;

/** Attributes by name, those that are undefined left out; functions listen to the event of that name. */
export type Attributes = Readonly<Record<string, string | undefined | ((event: Event) => void)>>;

/** Makes an element. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...contents: readonly Content[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value !== undefined) element.setAttribute(name, value);
  }
  element.append(...contents.filter((content) => content !== null));
  return element;
}

/** Puts those contents into an element in place of what it had, unless it says the same already. */
export function fill(element: Element, ...contents: readonly Content[]): void {
  const [only, ...more] = contents;
  if (typeof only === 'string' && more.length === 0 && element.textContent === only && !element.firstElementChild)
    return;
  element.replaceChildren(...contents.filter((content) => content !== null));
}

/** What else there is to know, in small letters. */
export const facts = (...contents: readonly Content[]): HTMLParagraphElement =>
  make('p', { class: 'facts' }, ...contents);

/** A section of a view with its title; `id` is that of the title. */
export const titled = (id: string, title: string, ...contents: readonly Content[]): HTMLElement =>
  make('section', { 'aria-labelledby': id }, make('h2', { id }, title), ...contents);

/** A name and what it stands for, in a list of them. */
export const figure = (name: string, ...value: readonly Content[]): Content =>
  make('div', {}, make('dt', {}, name), make('dd', {}, ...value));

const REACHABLE = 'a, [tabindex]';

/** A part of the page that is made anew when what it shows has changed, and is not there while it shows nothing. */
export class Part<Shown> {
  readonly element: HTMLElement;
  readonly #body = make('div');
  readonly #render: (shown: Shown) => readonly Content[];
  #text = '';

  constructor(title: string, render: (shown: Shown) => readonly Content[]) {
    this.element = make(
      'section',
      { 'aria-label': title || undefined, hidden: '' },
      title === '' ? null : make('h3', {}, title),
      this.#body,
    );
    this.#render = render;
  }

  show(shown: Shown): void {
    const text = JSON.stringify(shown);
    if (text === this.#text) return;
    this.#text = text;
    const contents = this.#render(shown).filter((content) => content !== null);
    const held = [...this.#body.querySelectorAll(REACHABLE)].indexOf(document.activeElement ?? this.#body);
    this.element.hidden = contents.length === 0;
    this.#body.replaceChildren(...contents);
    // Whoever reads along by keyboard stays where he is.
    if (held >= 0) this.#body.querySelectorAll<HTMLElement>(REACHABLE)[held]?.focus({ preventScroll: true });
  }
}

/** One child of an element for each item, told apart by `key`: a child stays while its item does, with what was typed into it. */
export class Children<Item> {
  readonly #parent: Element;
  readonly #key: (item: Item) => string;
  readonly #make: (item: Item) => { readonly element: Element; update?(item: Item): void };
  #children = new Map<string, { readonly element: Element; update?(item: Item): void }>();

  constructor(
    parent: Element,
    key: (item: Item) => string,
    make: (item: Item) => { readonly element: Element; update?(item: Item): void },
  ) {
    this.#parent = parent;
    this.#key = key;
    this.#make = make;
  }

  /** Shows those items, in that order. */
  show(items: readonly Item[]): void {
    const before = this.#children;
    this.#children = new Map();
    let place = this.#parent.firstElementChild;
    for (const item of items) {
      const key = this.#key(item);
      const child = before.get(key) ?? this.#make(item);
      before.delete(key);
      this.#children.set(key, child);
      child.update?.(item);
      // A child that is where it belongs is not moved: that would take the focus from what is in it.
      if (child.element === place) place = place.nextElementSibling;
      else this.#parent.insertBefore(child.element, place);
    }
    for (const { element } of before.values()) {
      if (element === place) place = element.nextElementSibling;
      element.remove();
    }
  }
}

/** What an error says. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

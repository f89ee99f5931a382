// Somebody's ratings. They live in this tab (sessionStorage), so that a visitor can start at once,
// a service is never asked to store a stranger, and forgetting is complete.

import { keyOf, readBack, written } from "./api.js";

export class Person extends EventTarget {
  constructor(name) {
    super();
    this.name = name;
    this.user = null; // the id of somebody whom the service has stored
    this.ratings = new Map(); // by key of the item: {item, title, rating}, in the order given
    this.done = []; // steps: {item, title, before, after}
    this.undone = [];
    this.supposed = null; // {item, title, rating}: what if; never stored
    this.restore();
  }

  restore() {
    try {
      for (const one of readBack(sessionStorage.getItem(`ordbm ${this.name}`)) ?? []) {
        this.ratings.set(keyOf(one.item), one);
      }
    } catch { /* nothing to begin with */ }
  }

  store() {
    try {
      sessionStorage.setItem(`ordbm ${this.name}`, written([...this.ratings.values()]));
    } catch { /* memory alone, then */ }
  }

  ratingOf(item) {
    return this.ratings.get(keyOf(item))?.rating ?? null;
  }

  /** Give a rating, or take one back (null). */
  rate(item, title, rating) {
    const before = this.ratingOf(item);
    if (before === rating) return;
    this.apply({ item, title, before, after: rating }, false);
  }

  apply(step, isUndo) {
    const target = isUndo ? step.before : step.after;
    const at = keyOf(step.item);
    if (target === null) this.ratings.delete(at);
    else this.ratings.set(at, { item: step.item, title: step.title, rating: target });
    if (isUndo) this.undone.push(step);
    else this.done.push(step);
    if (!isUndo && !step.again) this.undone = [];
    this.supposed = null;
    this.store();
    this.tell({ step, isUndo });
  }

  undo() {
    const step = this.done.pop();
    if (step) this.apply(step, true);
  }

  redo() {
    const step = this.undone.pop();
    if (step) this.apply({ ...step, again: true }, false);
  }

  suppose(supposed) {
    this.supposed = supposed;
    this.tell({ supposed });
  }

  forget() {
    this.ratings.clear();
    this.done = [];
    this.undone = [];
    this.supposed = null;
    this.user = null;
    sessionStorage.removeItem(`ordbm ${this.name}`);
    this.tell({ forgotten: true });
  }

  tell(detail) {
    this.dispatchEvent(new CustomEvent("change", { detail }));
  }

  /** The ratings as a question has them; with what is supposed, if told so. */
  said(withSupposed = true) {
    const all = new Map(this.ratings);
    const one = withSupposed ? this.supposed : null;
    if (one) all.set(keyOf(one.item), one);
    return [...all.values()].map(({ item, rating }) => ({ item, rating }));
  }

  /** Who a question is about. */
  question(withSupposed = true) {
    const ratings = this.said(withSupposed);
    return this.user === null ? { ratings } : { user: this.user, ratings };
  }
}

// The model's scale: what levels are called, and which control suits them.

const HALVES = { 0.25: "¼", 0.5: "½", 0.75: "¾" };
const MOST_CHOICES = 12;

function shownNumber(value) {
  const whole = Math.trunc(value);
  const part = HALVES[Math.abs(value - whole)];
  if (part) return whole === 0 && value > 0 ? part : `${whole}${part}`;
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}

export class Scale {
  constructor({ levels, range }) {
    this.levels = levels; // numbers or labels; null on a continuous scale
    this.range = range;
    this.isLabelled = levels !== null && typeof levels[0] === "string";
    // The numbers that levels stand for: labels are counted from one.
    this.values = this.isLabelled ? levels.map((_, at) => at + 1) : levels;
  }

  get span() {
    return this.range[1] - this.range[0] || 1;
  }

  /** "stars", "choices" (numbers or labels) or "slider". */
  get control() {
    if (this.levels === null || this.levels.length > MOST_CHOICES) return "slider";
    if (this.isLabelled) return "choices";
    const [low, high] = this.range;
    const step = this.levels.length > 1 ? this.levels[1] - this.levels[0] : 1;
    const even = this.levels.every((one, at) => Math.abs(one - low - at * step) < 1e-9);
    const isStars = even && high <= 6 && high >= 3 && low === step && (step === 1 || step === 0.5);
    return isStars ? "stars" : "choices";
  }

  /** A level as it is shown: 4½, or its label. */
  shown(level) {
    return typeof level === "string" ? level : shownNumber(level);
  }

  /** A level in words, for those who listen. */
  spoken(level) {
    if (typeof level === "string") return level;
    if (this.control === "stars") return `${level} ${level === 1 ? "star" : "stars"}`;
    return `${shownNumber(level)} of ${shownNumber(this.range[1])}`;
  }

  /** The level nearest to a number. */
  nearest(number) {
    if (this.levels === null) return number;
    let best = 0;
    this.values.forEach((value, at) => {
      if (Math.abs(value - number) < Math.abs(this.values[best] - number)) best = at;
    });
    return this.levels[best];
  }

  /** An expected rating, with as many digits as tell something. */
  mean(number) {
    return number.toFixed(this.digits);
  }

  get digits() {
    return this.span >= 50 ? 1 : 2;
  }

  /** What is called liked: three quarters up the scale. */
  get liked() {
    if (this.levels === null) return null;
    const least = this.range[0] + 0.75 * this.span;
    return this.levels[this.values.findIndex((value) => value >= least - 1e-9)];
  }
}

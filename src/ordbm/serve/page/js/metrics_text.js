// Prometheus' text form, as far as the operator's view reads it.

const LINE = /^(\w+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="([^"]*)"/g;

/** [{name, labels, value}] */
export function metricsOf(text) {
  return text.split("\n").map((line) => LINE.exec(line)).filter(Boolean)
    .map(([, name, labels, value]) => ({ name, value: Number(value),
      labels: Object.fromEntries([...(labels ?? "").matchAll(LABEL)].map(([, a, b]) => [a, b])) }));
}

/** By route: requests, failures, the mean and a bound of the time that 95 of 100 took. */
export function routesOf(metrics) {
  const routes = new Map();
  const of = (name) => {
    if (!routes.has(name)) {
      routes.set(name, { name, count: 0, refused: 0, failed: 0, seconds: 0, buckets: [] });
    }
    return routes.get(name);
  };
  for (const { name, labels, value } of metrics) {
    if (!labels.route) continue;
    const route = of(labels.route);
    if (name === "ordbm_requests_total") {
      route.count += value;
      if (labels.status === "4xx") route.refused += value;
      if (labels.status === "5xx") route.failed += value;
    } else if (name === "ordbm_request_seconds_sum") route.seconds = value;
    else if (name === "ordbm_request_seconds_bucket") route.buckets.push([labels.le, value]);
  }
  return [...routes.values()].filter((one) => one.count).sort((a, b) => b.count - a.count)
    .map((one) => ({ ...one, mean: one.seconds / one.count, most: within(one.buckets, 0.95) }));
}

function within(buckets, share) {
  const total = buckets.at(-1)?.[1] ?? 0;
  const found = buckets.find(([, count]) => count >= share * total);
  return found ? Number(found[0].replace("+Inf", "Infinity")) : 0;
}

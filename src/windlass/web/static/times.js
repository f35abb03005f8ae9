// Times as the reader's clock has them. The server writes UTC, which stands where no script runs.

const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});
const day = new Intl.DateTimeFormat("sv-SE", { year: "numeric", month: "2-digit", day: "2-digit" });
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const clockTime = (date) => clock.format(date);

/** The time alone for the present day; else the day before it. */
export function shortTime(date, now = new Date()) {
  const today = day.format(date) === day.format(now);
  return today ? clockTime(date) : `${day.format(date)} ${clockTime(date)}`;
}

/** Write every time of a document in the reader's zone; those told as a span keep it and get a title. */
export function localTimes(where) {
  for (const time of where.querySelectorAll("time[datetime]")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    time.title = `${day.format(date)} ${clockTime(date)} ${zone}`;
    if (!time.hasAttribute("data-away")) time.textContent = shortTime(date);
  }
}

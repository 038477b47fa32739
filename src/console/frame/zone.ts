const known: ReadonlySet<string> = new Set(
  Intl.supportedValuesOf('timeZone').filter((zone) => zone !== 'UTC'),
)

/** The time zones that pages can show, by name; UTC, which they show unless asked otherwise, is none of them. */
export const zones: readonly string[] = [...known]

/** A zone by its name; null for UTC and for what is none. */
export const zoneOf = (name: string | null): string | null => (name !== null && known.has(name) ? name : null)

const writers = new Map<string, Intl.DateTimeFormat>()

const writerOf = (zone: string): Intl.DateTimeFormat => {
  const writer =
    writers.get(zone) ??
    new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      hourCycle: 'h23',
      timeZoneName: 'shortOffset',
    })
  writers.set(zone, writer)
  return writer
}

/** An instant in a zone, to the minute, with how far it is from UTC: `2026-11-26 03:10 UTC+1`. */
export const textInZone = (iso: string, zone: string): string => {
  const parts = new Map(
    writerOf(zone)
      .formatToParts(new Date(iso))
      .map(({ type, value }) => [type, value]),
  )
  const part = (type: Intl.DateTimeFormatPartTypes): string => parts.get(type) ?? ''
  const offset = part('timeZoneName').replace('GMT', 'UTC').replace('-', '\u2212')
  return `${part('year')}-${part('month')}-${part('day')} ${part('hour')}:${part('minute')} ${offset}`
}

/** A page with its instants (`timeText`) in a zone; days and months are those of UTC, by which the books are kept. */
export const pageInZone = (page: string, zone: string): string =>
  page.replace(
    /<time datetime="(\d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]{2,6}Z)">[^<]*<\/time>/g,
    (_, iso: string) => `<time datetime="${iso}">${textInZone(iso, zone)}</time>`,
  )

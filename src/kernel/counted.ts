/** A number and what it counts, e.g. `1 seal`, `2 seals`, `1 entry`, `2 entries`. */
export const counted = (count: number | bigint, one: string, more = `${one}s`): string =>
  `${count} ${Number(count) === 1 ? one : more}`

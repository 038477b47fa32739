/** The most that one movement by hand moves, whole cents. */
export const maxCents = 100_000_000_000

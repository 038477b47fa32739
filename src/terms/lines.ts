/** A session of a line keeps its exit for at most so many minutes. */
export const maxStickyMinutes = 1_440

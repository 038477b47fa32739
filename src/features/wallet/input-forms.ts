/** The most that one movement by hand moves, whole cents. */
export const maxCents = 100_000_000_000

/** What a movement by hand is for: 1 to 200 printable characters without a space at its ends. */
export const isReference = (text: string): boolean => /^[^\p{C}]{1,200}$/u.test(text) && text.trim() === text

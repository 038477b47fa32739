/** The largest manual movement, and the largest threshold of a low balance, whole cents. */
export const maxCents = 100_000_000_000

/** The form of a manual movement's reference: 1 to 200 printable characters without surrounding spaces. */
export const isReference = (text: string): boolean => /^[^\p{C}]{1,200}$/u.test(text) && text.trim() === text

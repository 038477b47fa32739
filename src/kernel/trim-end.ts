/** The text without the characters `end` at its end. `/0+$/` would take a time that grows with the square of its length. */
export const trimEnd = (text: string, end: string): string => {
  let length = text.length
  while (length > 0 && text[length - 1] === end) length--
  return text.slice(0, length)
}

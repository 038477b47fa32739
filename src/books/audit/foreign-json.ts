/** An object of a stored text that may be anybody's, with what it says unchecked; null when the text holds none. */
export const foreignObject = <Shape extends object>(text: string): Partial<Shape> | null => {
  try {
    const parsed: unknown = JSON.parse(text)
    return typeof parsed === 'object' && parsed !== null ? (parsed as Partial<Shape>) : null
  } catch {
    return null
  }
}

/**
 * The JSON text of an object with these members and with some more whose values are JSON text already, so that long ones
 * are not parsed only to be written again. The names of the latter are others than those of the former.
 */
export const objectText = (members: object, texts: Readonly<Record<string, string>>): string => {
  const inner = JSON.stringify(members).slice(1, -1)
  const more = Object.entries(texts).map(([name, text]) => `${JSON.stringify(name)}:${text}`)
  return `{${[...(inner === '' ? [] : [inner]), ...more].join(',')}}`
}

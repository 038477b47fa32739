import { canonical } from '../../../kernel/canonical.ts'

/** Whether two JSON values mean the same, whatever the order of their fields. */
export const same = (one: unknown, other: unknown): boolean =>
  JSON.stringify(canonical(one)) === JSON.stringify(canonical(other))

const shown = (value: unknown): string => {
  const text = value === undefined ? 'none' : JSON.stringify(value)
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}

/** The fields in which two facts differ, in words: `bytes 6, not 5; unit "GB", not none`. */
export const differences = (said: object, due: object): string =>
  [...new Set([...Object.keys(said), ...Object.keys(due)])]
    .map((name) => [name, Reflect.get(said, name), Reflect.get(due, name)] as const)
    .filter(([, one, other]) => !same(one, other))
    .map(([name, one, other]) => `${name} ${shown(one)}, not ${shown(other)}`)
    .join('; ')

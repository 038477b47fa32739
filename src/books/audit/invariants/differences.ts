import { canonical } from '../../../kernel/canonical.ts'

type Fields = Readonly<Record<string, unknown>>

/** Whether two values are equal field by field: they then mean the same. */
const isEqual = (one: unknown, other: unknown): boolean => {
  if (one === other) return true
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false
  if (Array.isArray(one))
    return (
      Array.isArray(other) && one.length === other.length && one.every((item, at) => isEqual(item, other[at]))
    )
  if (Array.isArray(other)) return false
  const names = Object.keys(one)
  return (
    names.length === Object.keys(other).length &&
    names.every(
      (name) => Object.hasOwn(other, name) && isEqual((one as Fields)[name], (other as Fields)[name]),
    )
  )
}

/** Whether two JSON values mean the same, whatever the order of their fields; one that is undefined is none. */
export const same = (one: unknown, other: unknown): boolean =>
  isEqual(one, other) || JSON.stringify(canonical(one)) === JSON.stringify(canonical(other))

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

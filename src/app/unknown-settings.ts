import { nearest } from '../kernel/nearest.ts'
import { settings } from './config.ts'

const known = Object.keys(settings)

const prefix = 'FAREBOX_'
/** Of the tests of Farebox itself. */
const ofTests = 'FAREBOX_TEST_'

/** `FAREBOX_PORT` is meant as `PORT`, and `farebox_data` as `FAREBOX_DATA`. */
const bare = (name: string): string => {
  const upper = name.toUpperCase()
  return upper.startsWith(prefix) ? upper.slice(prefix.length) : upper
}

/**
 * One line for each variable that reads as a setting of Farebox and is none, with the name that is most likely meant.
 * Values are not told. An empty one counts as not set, as everywhere.
 */
export const unknownSettings = (environment: NodeJS.ProcessEnv): readonly string[] =>
  Object.entries(environment)
    .filter(([name, value]) => value !== '' && name.toUpperCase().startsWith(prefix))
    .map(([name]) => name)
    .filter((name) => !known.includes(name) && !name.startsWith(ofTests))
    .sort()
    .map((name) => {
      const meant = nearest(name, known, bare)
      const hint = meant === null ? '' : `; did you mean ${meant}?`
      return `${name} is not a setting and has no effect${hint === '' ? '; "farebox settings" lists them all' : hint}`
    })

import type { Route } from './route.ts'

export type PathMatch = { readonly allow: string; readonly cors: boolean }

/** Says which methods a path has, for requests that no route took: 405 and OPTIONS name them. */
export type PathTable = (path: string) => PathMatch | null

const pattern = (path: string): RegExp => {
  const escaped = path.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{[^{}]+\}/g, '[^/]+')
  return new RegExp(`^${escaped}$`)
}

const allowOf = (routes: readonly Route[]): string => {
  const methods = routes.map(({ method }) => method as string)
  return [...new Set([...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'])].join(', ')
}

export const pathTable = (routes: readonly Route[]): PathTable => {
  const byPath = Map.groupBy(routes, ({ path }) => path as string)
  const rows = [...byPath].map(([path, group]) => ({
    pattern: pattern(path),
    match: { allow: allowOf(group), cors: group.some(({ cors }) => cors === true) },
  }))
  return (path) => rows.find((row) => row.pattern.test(path))?.match ?? null
}

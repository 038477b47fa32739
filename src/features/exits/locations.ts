import type { Family } from '../../domain/shared/order-terms.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { countryOfAlpha2 } from '../../kernel/countries.ts'
import type { Candidate } from './candidates.ts'
import type { ExitHealth } from './exit-health.ts'
import type { LiveExits } from './live-exits.ts'

export type ListedCountry = {
  readonly alpha2: string
  readonly alpha3: string
  readonly name: string
  readonly states: number
  readonly cities: number
  readonly asns: number
}
export type ListedState = { readonly code: string; readonly name: string }
export type ListedCity = ListedState & { readonly state: string | null }
export type ListedIsp = ListedState & { readonly asns: readonly number[] }
export type ListedAsn = { readonly asn: number; readonly name: string }

/** The locations of the live exits in one country. Each list is sorted by name. */
export type CountryLocations = {
  readonly country: ListedCountry
  readonly states: readonly ListedState[]
  readonly cities: readonly ListedCity[]
  readonly isps: readonly ListedIsp[]
  readonly asns: readonly ListedAsn[]
}

/** By alpha-2 code. */
export type LocationsByCountry = ReadonlyMap<string, CountryLocations>

const byName = <Named extends { readonly name: string }>(items: Iterable<Named>): readonly Named[] =>
  [...items].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))

const countryLocations = (alpha2: string, candidates: readonly Candidate[]): CountryLocations => {
  const states = new Map<string, ListedState>()
  const cities = new Map<string, ListedCity>()
  const isps = new Map<string, { code: string; name: string; asns: Set<number> }>()
  const asns = new Map<number, ListedAsn>()
  for (const { coverage: cover } of candidates) {
    for (const { code, name } of cover.states) states.set(code, { code, name })
    for (const { code, name, state } of cover.cities)
      cities.set(code, { code, name, state: state ?? cities.get(code)?.state ?? null })
    for (const { code, name, asns: numbers } of cover.isps) {
      const existing = isps.get(code) ?? { code, name, asns: new Set() }
      for (const asn of numbers) {
        existing.asns.add(asn)
        asns.set(asn, { asn, name })
      }
      isps.set(code, existing)
    }
    for (const asn of cover.asns) if (!asns.has(asn)) asns.set(asn, { asn, name: `AS${asn}` })
  }
  const { alpha3, name } = countryOfAlpha2(alpha2)
  return {
    country: { alpha2, alpha3, name, states: states.size, cities: cities.size, asns: asns.size },
    states: byName(states.values()),
    cities: byName(cities.values()),
    isps: byName([...isps.values()].map((isp) => ({ ...isp, asns: [...isp.asns].sort((a, b) => a - b) }))),
    asns: [...asns.values()].sort((a, b) => a.asn - b.asn),
  }
}

/** The current locations of the live exits, or those of a moment ago; `family`: only of this product family. */
export type CurrentLocations = (family: Family | null) => Promise<LocationsByCountry>

/** The locations of the live exits, computed again when they change; `family`: only of this product family. */
export const createLocations = (deps: {
  readonly live: Pick<LiveExits, 'index' | 'version'>
  readonly health: Pick<ExitHealth, 'isAlive'>
}): ((family: Family | null) => LocationsByCountry) => {
  const { live, health } = deps
  let version = ''
  let cachedLocations = new Map<Family | null, LocationsByCountry>()
  return (family) => {
    if (version !== live.version()) cachedLocations = new Map()
    version = live.version()
    const existing = cachedLocations.get(family)
    if (existing) return existing
    const alive = live
      .index()
      .serving.filter(
        ({ exitId, terms }) => health.isAlive(exitId) && (family === null || terms.family === family),
      )
    const locationsByCountry: LocationsByCountry = new Map(
      [...Map.groupBy(alive, ({ coverage: cover }) => cover.country)].map(([alpha2, candidates]) => [
        alpha2,
        countryLocations(alpha2, candidates),
      ]),
    )
    cachedLocations.set(family, locationsByCountry)
    return locationsByCountry
  }
}

/**
 * Refreshes exits on request only: resolves when the data in memory is at most `maxAgeMs` old. It also resolves while
 * Postgres does not answer. Then the previous data is used.
 */
export const createRecentExits = (deps: {
  readonly live: Pick<LiveExits, 'refresh'>
  readonly maxAgeMs: number
  readonly monotonicMs: MonotonicClock
  readonly onError: (error: unknown) => void
}): (() => Promise<void>) => {
  const { live, maxAgeMs, monotonicMs, onError } = deps
  let lastRefreshMs = Number.NEGATIVE_INFINITY
  let refreshing: Promise<void> | null = null
  return async () => {
    if (monotonicMs() - lastRefreshMs <= maxAgeMs) return
    refreshing ??= (async () => {
      const requestedMs = monotonicMs()
      await live.refresh().catch(onError)
      // Set after a failure, too. Otherwise each request during an outage would query Postgres.
      lastRefreshMs = requestedMs
      refreshing = null
    })()
    await refreshing
  }
}
